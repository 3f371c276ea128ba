/** Lookups of nodes one by one, for a cloud that answers no more by one call. */
import { setTimeout as sleep } from "node:timers/promises";
import { status } from "@grpc/grpc-js";
import type { Call } from "./call.js";
import { Failure, stopsTheClass } from "./errors.js";
import type { Node } from "./gen/cloudprovider/v1/common.js";
import type { Instance } from "./gen/cloudprovider/v1/instances.js";
import type { Result } from "./results.js";

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
  call: Call, nodes: readonly Node[], lookup: (node: Node) => Promise<Result<Instance>> | Result<Instance>, concurrency = 8,
): Promise<Map<string, Result<Instance>>> {
  const late = { error: new Failure("the cloud has not answered about this node", status.DEADLINE_EXCEEDED) };
  const results = new Map<string, Result<Instance>>(nodes.map(({ name }) => [name, late]));
  const order = nodes.map((node) => ({ node, place: Math.random() })).sort((a, b) => a.place - b.place).map(({ node }) => node);
  const worker = async () => {
    for (let node = order.pop(); node && !call.callerGone.aborted; node = order.pop()) {
      let result: Result<Instance>;
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
