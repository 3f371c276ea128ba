/** InstancesService: the interface of a cloud's machines, and the service that is made of it. */
import type { Call } from "./call.js";
import type { Core } from "./core.js";
import type { Node } from "./gen/cloudprovider/v1/common.js";
import * as api from "./gen/cloudprovider/v1/instances.js";
import type { InstancesCapability } from "./gen/cloudprovider/v1/provider.js";
import type { DeepPartial } from "./partial.js";
import { type Results, resultOf } from "./results.js";

/** How a lookup may be answered. */
export interface Query {
  /** How much of each instance the controller reads; more may be filled. Never UNSPECIFIED. */
  view: api.InstanceView;
  /** How old an answer from the provider's own caches may be, in milliseconds. 0: ask the cloud now. */
  maxStaleness: number;
}

/** The elements that a handler lists: an async generator mostly. An exception has the caller discard the list. */
export type List<T> = AsyncIterable<DeepPartial<T>> | Iterable<DeepPartial<T>>;

/** Looks up the machines behind Nodes. Nothing here changes the cloud. */
export interface Instances {
  /** Declared at handshake; the SDK sets `list`. */
  readonly capability?: DeepPartial<InstancesCapability>;
  /**
   * Looks up 1 to `maxBatchSize` nodes with distinct names: by provider ID, and only where that is empty by name, system
   * UUID or labels. The results have the names as keys. An exception is the error of each node.
   */
  batchGetInstances(nodes: readonly Node[], call: Call, query: Query): Promise<Results<api.Instance>> | Results<api.Instance>;
  /** Lists each instance that can be a node of this cluster. */
  listInstances?(call: Call, query: Query): List<api.Instance>;
}

/** The handlers of InstancesService. */
export function instancesService(core: Core, instances: Instances) {
  return {
    batchGetInstances: core.unary("BatchGetInstances", async (request: api.BatchGetInstancesRequest, call) => {
      const results = await instances.batchGetInstances(request.items, call, queryOf(request));
      return { results: Array.from(results, ([name, result]) => resultOf(call, name, result)) };
    }),
    ...instances.listInstances && {
      listInstances: core.list("ListInstances", api.Instance, (request: api.ListInstancesRequest, call) =>
        instances.listInstances?.(call, queryOf(request)) ?? []),
    },
  };
}

/** A view of a later minor is read as everything. */
function queryOf({ view, maxStaleness }: { view: api.InstanceView; maxStaleness: { seconds: number; nanos: number } | undefined }): Query {
  const isShort = view === api.InstanceView.METADATA || view === api.InstanceView.STATE;
  const { seconds, nanos } = maxStaleness ?? { seconds: 0, nanos: 0 };
  return { view: isShort ? view : api.InstanceView.FULL, maxStaleness: seconds * 1000 + Math.floor(nanos / 1e6) };
}
