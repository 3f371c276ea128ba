/** InstancesService: the interface of a cloud's machines, the service that is made of it, and lookups of nodes one by one. */
import { setTimeout as sleep } from "node:timers/promises";
import { status } from "@grpc/grpc-js";
import type { Call } from "./call.js";
import type { Core } from "./core.js";
import { Failure, stopsTheClass } from "./errors.js";
import type { Node } from "./gen/cloudprovider/v1/common.js";
import * as api from "./gen/cloudprovider/v1/instances.js";
import type { InstancesCapability } from "./gen/cloudprovider/v1/provider.js";
import type { DeepPartial } from "./partial.js";
import { type Result, type Results, resultOf } from "./results.js";

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

/** How long before its deadline a batch is answered, at most: enough to send the answer. */
const ANSWER_MARGIN_MS = 1000;

/**
 * Looks up each node by itself, at most `concurrency` at a time. An exception concerns its node only. Once the cloud limits
 * the rate, refuses the credentials or is away, the nodes that were not begun yet get that error too.
 *
 * Shortly before the deadline it resolves with the results that are there, and an error for each other node: one that hangs
 * must not take the answers about the others with it. The order changes from call to call, so that no node is always behind
 * those that hang.
 */
export async function each(
  call: Call, nodes: readonly Node[], lookup: (node: Node) => Promise<Result<api.Instance>> | Result<api.Instance>, concurrency = 8,
): Promise<Map<string, Result<api.Instance>>> {
  const late = { error: new Failure("the cloud has not answered about this node", status.DEADLINE_EXCEEDED) };
  const results = new Map<string, Result<api.Instance>>(nodes.map(({ name }) => [name, late]));
  const order = nodes.map((node) => ({ node, place: Math.random() })).sort((a, b) => a.place - b.place).map(({ node }) => node);
  const worker = async () => {
    for (let node = order.pop(); node && !call.callerGone.aborted; node = order.pop()) {
      let result: Result<api.Instance>;
      try {
        result = await lookup(node);
      } catch (error) {
        result = { error };
      }
      results.set(node.name, result);
      if ("error" in result && stopsTheClass(result.error)) for (const other of order.splice(0)) results.set(other.name, result);
    }
  };
  const left = call.deadline.getTime() - Date.now();
  await Promise.race([
    Promise.all(Array.from({ length: Math.max(concurrency, 1) }, worker)),
    sleep(left - Math.min(ANSWER_MARGIN_MS, left / 10), undefined, { ref: false }),
  ]);
  // A result that comes from now on is not in the answer.
  return new Map(results);
}
