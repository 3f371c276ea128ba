package dev.outrigger.provider;

import dev.outrigger.cloudprovider.v1.Route;
import dev.outrigger.cloudprovider.v1.RoutesCapability;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/**
 * Lists, makes and removes routes from Pod CIDRs to Nodes. Mark each route with {@code call.cluster().uid()}, in the
 * cloud call that creates it, and list and delete that cluster's routes only. The key is the destination CIDR: one
 * change of it runs at a time, another one is refused. The author writes {@link #createRoute} and {@link #deleteRoute},
 * or the methods of their plurals where one call of the cloud changes many. {@link Call#check} is to be asked before
 * each change, as in {@link LoadBalancers}.
 */
public interface Routes {
  /** Facts that the methods do not show. */
  default RoutesCapability capability() {
    return RoutesCapability.getDefaultInstance();
  }

  /** How many {@link #createRoute} or {@link #deleteRoute} run at a time for one batch. */
  default int concurrency() {
    return 8;
  }

  /** Every route of this cluster, those that lead nowhere too; an exception discards the list. */
  Stream<Route> listRoutes(Call call) throws Exception;

  /**
   * Makes a route: {@link Outcome#done}, or found with the route as a list shows it. A route that exists is a success,
   * one to another target is CONFLICTING_RESOURCE and stays.
   */
  default Outcome<Route> createRoute(Call call, Route route) throws Exception {
    throw new UnsupportedOperationException("createRoute");
  }

  /**
   * Removes a route, which is as it was listed or as its creation answered it: {@link Outcome#done}. A route that is
   * gone is a success.
   */
  default Outcome<Route> deleteRoute(Call call, Route route) throws Exception {
    throw new UnsupportedOperationException("deleteRoute");
  }

  /** The outcome of each route by its destination CIDR as it is spelled there. */
  default Map<String, Outcome<Route>> createRoutes(Call call, List<Route> routes) throws Exception {
    throw new UnsupportedOperationException("createRoutes");
  }

  /** Likewise. */
  default Map<String, Outcome<Route>> deleteRoutes(Call call, List<Route> routes) throws Exception {
    throw new UnsupportedOperationException("deleteRoutes");
  }
}
