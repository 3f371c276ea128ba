package dev.outrigger.provider;

import com.google.protobuf.Message;
import dev.outrigger.cloudprovider.v1.BatchCreateRoutesRequest;
import dev.outrigger.cloudprovider.v1.BatchDeleteRoutesRequest;
import dev.outrigger.cloudprovider.v1.ListRoutesRequest;
import dev.outrigger.cloudprovider.v1.ListRoutesResponse;
import dev.outrigger.cloudprovider.v1.Route;
import java.math.BigInteger;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** Serves RoutesService: works on the routes that no other call changes. */
final class RoutesRpc {
  /** When a route is asked for again that another call changes. */
  private static final Duration BUSY_RETRY = Duration.ofSeconds(1);

  private final Routes author;
  /** The methods of many routes that the author has written. */
  private final Set<String> plurals;
  private final Keys keys;

  RoutesRpc(Routes author) {
    this.author = author;
    this.plurals = Stream.of("createRoutes", "deleteRoutes")
        .filter(method -> Provider.implementsMethod(author, Routes.class, method)).collect(Collectors.toSet());
    this.keys = new Keys(Duration.ZERO, BUSY_RETRY, author.capability().getMaxInFlight());
  }

  /** Adds the methods. */
  void serve(Rpcs rpcs) {
    rpcs.<ListRoutesRequest>serve("ListRoutes", (call, request, sink) ->
            Pages.send(call, ListRoutesResponse.getDefaultInstance(), author.listRoutes(call), sink))
        .serve("BatchCreateRoutes", Rpc.<BatchCreateRoutesRequest>unary((call, request) -> change(
            call, request.getItemsList(), route -> author.createRoute(call, route),
            "createRoutes", routes -> author.createRoutes(call, routes))))
        .serve("BatchDeleteRoutes", Rpc.<BatchDeleteRoutesRequest>unary((call, request) -> change(
            call, request.getItemsList(), route -> author.deleteRoute(call, route),
            "deleteRoutes", routes -> author.deleteRoutes(call, routes))));
  }

  /** The author's work on all routes. */
  @FunctionalInterface
  private interface Many {
    Map<String, Outcome<Route>> on(List<Route> routes) throws Exception;
  }

  /** Routes that another call changes are not waited for: the batch would wait too. */
  private Message change(Call call, List<Route> routes, Each.Work<Route, Route> one, String plural, Many many)
      throws Exception {
    Method method = Method.ALL.get(call.rpc());
    Map<String, Outcome<Route>> outcomes = new HashMap<>();
    Deque<Keys.Held> held = new ArrayDeque<>();
    try (Keys.Held slot = keys.slot(call)) {
      List<Route> free = new ArrayList<>();
      for (Route route : routes) {
        try {
          held.push(keys.key(call, "route " + spelled(route.getDestinationCidr())));
          free.add(route);
        } catch (ProviderException error) {
          outcomes.put(method.key(route), Outcome.failed(error));
        }
      }
      Map<String, Outcome<Route>> changed = Map.of();
      if (!free.isEmpty()) {
        changed = plurals.contains(plural)
            ? many.on(free) : Each.of(call, free, method::key, author.concurrency(), one);
      }
      if (changed == null) {
        throw new IllegalStateException(plural + " has answered null, and not a map of outcomes by destination CIDR");
      }
      outcomes.putAll(changed);
    } finally {
      held.forEach(Keys.Held::close);
    }
    return new Results(call, method.response(), author).respond(routes, method::key, outcomes);
  }

  /** The same for all spellings of a destination CIDR. A text that is no CIDR is its own key. */
  static String spelled(String destination) {
    int slash = destination.indexOf('/');
    // No name is looked up: the characters are those of an address.
    if (slash < 1 || !destination.substring(0, slash).matches("[0-9.]+|[0-9a-fA-F:.]*:[0-9a-fA-F:.]*")) {
      return destination;
    }
    try {
      byte[] address = InetAddress.getByName(destination.substring(0, slash)).getAddress();
      int length = Integer.parseInt(destination.substring(slash + 1));
      int bits = address.length * 8;
      if (length < 0 || length > bits) {
        return destination;
      }
      BigInteger network = new BigInteger(1, address).shiftRight(bits - length);
      return bits + ":" + network.toString(16) + "/" + length;
    } catch (UnknownHostException | NumberFormatException error) {
      return destination;
    }
  }
}
