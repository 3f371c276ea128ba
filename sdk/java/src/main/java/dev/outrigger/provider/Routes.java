package dev.outrigger.provider;

import dev.outrigger.cloudprovider.v1.*;
import java.util.stream.Stream;

/**
 * Lists, makes and removes routes from Pod CIDRs to Nodes. Mark each route with {@code call.clusterUid()}, in the cloud
 * call that creates it, and list and delete that cluster's routes only. One change of a destination CIDR runs at a time.
 * {@link Call#check} is to be asked before each change, as in {@link LoadBalancers}. Where one call of the cloud changes
 * many routes, a {@link Batcher} shares it.
 */
public interface Routes {
  /** Facts that the methods do not show. */
  default RoutesCapability capability() {
    return RoutesCapability.getDefaultInstance();
  }

  /** Every route of this cluster, those that lead nowhere too; an exception discards the list. */
  Stream<Route> listRoutes(Call call) throws Exception;

  /**
   * Makes a route; {@code found} is the route as a list shows it, or empty where it is as it was asked for. A route that
   * exists is a success, one to another target is CONFLICTING_RESOURCE and stays.
   */
  CreateRouteResponse createRoute(Call call, Route route) throws Exception;

  /**
   * Removes a route, which is as it was listed or as its creation answered it; {@code absent} is filled in. A route that
   * is gone is a success.
   */
  DeleteRouteResponse deleteRoute(Call call, Route route) throws Exception;
}
