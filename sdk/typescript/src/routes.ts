/** RoutesService: the interface of a cloud's routes, and the service that is made of it. */
import { isIP } from "node:net";
import type { Call } from "./call.js";
import type { Core } from "./core.js";
import { AbsenceCertainty } from "./gen/cloudprovider/v1/common.js";
import type { RoutesCapability } from "./gen/cloudprovider/v1/provider.js";
import * as api from "./gen/cloudprovider/v1/routes.js";
import type { List } from "./instances.js";
import { Keys } from "./keys.js";
import { type DeepPartial, whole } from "./partial.js";

/** The route as a list shows it, or an empty one where it is as it was asked for; and effects on the Node. */
export type CreatedRoute = DeepPartial<api.CreateRouteResponse> & { found: DeepPartial<api.Route> };
/** Effects on the Node. */
export type DeletedRoute = Pick<DeepPartial<api.DeleteRouteResponse>, "effects">;

/**
 * Lists, makes and removes routes from Pod CIDRs to Nodes. Mark each with `call.clusterUid`, in the call that creates it,
 * and list and delete that cluster's only. One change of a destination CIDR runs at a time, in whichever spelling. Where one
 * call of the cloud changes many routes, a {@link Batcher} shares it.
 */
export interface Routes {
  /** Declared at handshake. */
  readonly capability?: DeepPartial<RoutesCapability>;
  /** Lists each route of this cluster, those that lead nowhere too. */
  listRoutes(call: Call): List<api.Route>;
  /** Makes a route. A route that exists is a success, one to another target is CONFLICTING_RESOURCE and stays. */
  createRoute(route: api.Route, call: Call): Promise<CreatedRoute> | CreatedRoute;
  /** Removes a route, which is as it was listed or made; one that is gone is a success. */
  deleteRoute(route: api.Route, call: Call): Promise<DeletedRoute | undefined> | DeletedRoute | undefined;
}

/** The handlers of RoutesService. */
export function routesService(core: Core, routes: Routes) {
  const keys = new Keys(routes.capability?.maxInFlight ?? 0);
  const change = <T>(call: Call, sent: api.Route | undefined, work: (route: api.Route) => Promise<T> | T) => {
    const route = whole(api.Route, sent ?? {});
    return keys.run(call, `route ${canonicalCidr(route.destinationCidr)}`, () => work(route));
  };
  return {
    listRoutes: core.list("ListRoutes", api.Route, (_: api.ListRoutesRequest, call) => routes.listRoutes(call)),
    createRoute: core.change("CreateRoute", async ({ route }: api.CreateRouteRequest, call) =>
      whole(api.CreateRouteResponse, await change(call, route, (one) => routes.createRoute(one, call)))),
    deleteRoute: core.change("DeleteRoute", async ({ route }: api.DeleteRouteRequest, call) => {
      const { effects } = await change(call, route, (one) => routes.deleteRoute(one, call)) ?? {};
      return whole(api.DeleteRouteResponse, { absent: { certainty: AbsenceCertainty.CONFIRMED }, effects });
    }),
  };
}

/** The same for all spellings of a destination CIDR. A text that is no CIDR, which a cloud's list may have, is its own key. */
export function canonicalCidr(text: string): string {
  const [address = "", length = ""] = text.split("/");
  const family = isIP(address);
  // A URL has the canonical form.
  return family === 0 ? text : `${new URL(`http://${family === 6 ? `[${address}]` : address}`).hostname}/${String(Number(length))}`;
}
