/** RoutesService: the interface of a cloud's routes, and the service that is made of it. */
import { isIP } from "node:net";
import type { Call } from "./call.js";
import type { Core } from "./core.js";
import { AbsenceCertainty } from "./gen/cloudprovider/v1/common.js";
import type { RoutesCapability } from "./gen/cloudprovider/v1/provider.js";
import * as api from "./gen/cloudprovider/v1/routes.js";
import { KeyLocks, Semaphore } from "./keys.js";
import { type List, sendList } from "./list.js";
import type { DeepPartial } from "./partial.js";
import { batch, fit, type Result, type Results } from "./results.js";

/**
 * Lists, makes and removes routes from Pod CIDRs to Nodes. Mark each with `call.clusterUid`, in the call that creates it,
 * and list and delete that cluster's only. The key is the destination CIDR; one change of it runs at a time, and another
 * is answered OPERATION_IN_PROGRESS immediately.
 */
export interface Routes {
  /** Declared at handshake; the SDK sets `maxBatchSize` to 100 unless it is given. */
  readonly capability?: DeepPartial<RoutesCapability>;
  /** Lists each route of this cluster, those that lead nowhere too. An exception has the caller discard the list. */
  listRoutes(call: Call): List<api.Route>;
  /**
   * Makes routes; `found` is the route as a list shows it. A route that exists is a success, one to another target is
   * CONFLICTING_RESOURCE and stays. The results have the destination CIDRs as keys. An exception is the error of each route.
   */
  batchCreateRoutes(routes: readonly api.Route[], call: Call): Promise<Results<api.Route>> | Results<api.Route>;
  /** Removes routes, each as it was listed or made; one that is gone is a success. `found` and `absent` say the same here. */
  batchDeleteRoutes(routes: readonly api.Route[], call: Call): Promise<Results<api.Route>> | Results<api.Route>;
}

/** A route that another call changes is asked for again soon: that call is mostly one which its caller has cancelled. */
const BUSY_RETRY_SECONDS = 1;

/** The handlers of RoutesService. */
export function routesService(core: Core, routes: Routes, maxInFlight: number): api.RoutesServiceServer {
  const locks = new KeyLocks(0, BUSY_RETRY_SECONDS);
  const batches = new Semaphore(maxInFlight);
  /** Works on the routes that no other call changes; the whole batch would wait with the others. */
  const change = (call: Call, items: readonly api.Route[], work: (items: readonly api.Route[]) => Promise<Results<api.Route>> | Results<api.Route>) =>
    batches.run(call, async () => {
      const results = new Map<string, Result<api.Route>>();
      const free: api.Route[] = [];
      const releases: (() => void)[] = [];
      for (const route of items) {
        try {
          releases.push(await locks.lock(call, canonicalCidr(route.destinationCidr)));
          free.push(route);
        } catch (error) {
          results.set(route.destinationCidr, { error });
        }
      }
      try {
        if (free.length > 0) for (const [key, result] of await work(free)) results.set(key, result);
        return results;
      } finally {
        for (const release of releases) release();
      }
    });
  return {
    listRoutes: core.stream("ListRoutes", (_: api.ListRoutesRequest, call, send: (page: api.ListRoutesResponse) => Promise<void>) =>
      sendList(call, api.Route, routes.listRoutes(call), send)),
    batchCreateRoutes: core.unary("BatchCreateRoutes", async ({ items }: api.BatchCreateRoutesRequest, call) => {
      const results = await batch(call, items, api.Route, () => change(call, items, (free) => routes.batchCreateRoutes(free, call)));
      return fit(call, api.BatchCreateRoutesResponse, { results });
    }),
    batchDeleteRoutes: core.unary("BatchDeleteRoutes", async ({ items }: api.BatchDeleteRoutesRequest, call) => {
      const results = await batch(call, items, api.Route, () => change(call, items, (free) => routes.batchDeleteRoutes(free, call)));
      const absent = { $case: "absent" as const, value: { certainty: AbsenceCertainty.CONFIRMED, age: undefined, reason: "" } };
      return fit(call, api.BatchDeleteRoutesResponse, {
        results: results.map((result) => (result.outcome.$case === "error" ? result : { ...result, outcome: absent })),
      });
    }),
  };
}

/** The same for all spellings of a destination CIDR. A text that is no CIDR, which a cloud's list may have, is its own key. */
export function canonicalCidr(text: string): string {
  const [address = "", length = ""] = text.split("/");
  const family = isIP(address);
  if (family === 0 || !/^\d{1,3}$/.test(length)) return text;
  const bits = family === 4 ? 32 : 128;
  const host = BigInt(Math.max(bits - Number(length), 0));
  return `${String(family)}:${((numberOf(address, family) >> host) << host).toString(16)}/${String(Number(length))}`;
}

function numberOf(address: string, family: number): bigint {
  const hexadecimal = family === 4
    ? address.split(".").map((byte) => Number(byte).toString(16).padStart(2, "0")).join("")
    // A URL has the canonical form, without IPv4 inside.
    : groups(new URL(`http://[${address}]`).hostname.slice(1, -1));
  return BigInt(`0x${hexadecimal}`);
}

function groups(address: string): string {
  const [head = "", tail] = address.split("::").map((part) => part.split(":").filter(Boolean).map((group) => group.padStart(4, "0")).join(""));
  return tail === undefined ? head : head.padEnd(32 - tail.length, "0") + tail;
}
