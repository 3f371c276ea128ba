package dev.outrigger.provider;

import dev.outrigger.cloudprovider.v1.*;
import io.grpc.ServerServiceDefinition;
import java.net.InetAddress;
import java.net.UnknownHostException;

/** Serves RoutesService: runs one change of a destination CIDR at a time. */
final class RoutesRpc {
  static ServerServiceDefinition of(Core core, Routes author) {
    Keys keys = new Keys(author.capability().getMaxInFlight());
    return new Methods(core, RoutesServiceGrpc.SERVICE_NAME)
        .list(RoutesServiceGrpc.getListRoutesMethod(), (call, request) -> author.listRoutes(call))
        .unary(RoutesServiceGrpc.getCreateRouteMethod(), (call, request) ->
            keys.run(call, key(request.getRoute()), () -> author.createRoute(call, request.getRoute())))
        .unary(RoutesServiceGrpc.getDeleteRouteMethod(), (call, request) ->
            keys.run(call, key(request.getRoute()), () -> author.deleteRoute(call, request.getRoute()))
                .toBuilder().setAbsent(Lookup.absent().getAbsent()).build())
        .build();
  }

  /** The same for all spellings of a destination CIDR, of which IPv6 has many. */
  private static String key(Route route) throws UnknownHostException {
    String[] parts = route.getDestinationCidr().split("/", 2);
    // No name is looked up: the characters are those of an address.
    boolean isIpv6 = parts[0].matches("[0-9a-fA-F:.]*:[0-9a-fA-F:.]*");
    return "route " + (isIpv6 ? InetAddress.getByName(parts[0]).getHostAddress() : parts[0]) + "/" + parts[parts.length - 1];
  }
}
