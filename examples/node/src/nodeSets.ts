/** NodeSetsService: the targets of load balancers, sent once and then named by their revision. */
import type { Node } from "../gen/cloudprovider/v1/common.js";
import type * as api from "../gen/cloudprovider/v1/node_sets.js";
import { ProviderError } from "./errors.js";

/** Calls under way may name the revision before the latest. */
const KEPT_REVISIONS = 2;

const invalid = (message: string) => new ProviderError("INVALID_REQUEST", message);

/** The latest revisions of node sets that the controller has uploaded. */
export class NodeSets {
  /** The one that was synced last comes last. */
  private held: readonly { setId: string; revision: string; nodes: Node[] }[] = [];

  resolve(targets: api.NodeTargets | undefined): Node[] {
    const named = targets?.targets;
    if (named?.$case === "inline") return named.value.nodes;
    if (named === undefined) throw invalid("the request has no targets");
    const { setId, revision } = named.value;
    const set = this.held.find((one) => one.setId === setId && one.revision === revision);
    if (!set) throw new ProviderError("NODE_SET_UNKNOWN", `revision ${revision} of node set ${setId} is not held`);
    return set.nodes;
  }

  /** Applies nothing before the commit: the end of a cancelled upload can look like any other. */
  readonly sync = async (parts: AsyncIterable<api.SyncNodeSetRequest>): Promise<api.SyncNodeSetResponse> => {
    let begin, commit;
    const nodes: Node[] = [];
    for await (const { part } of parts) {
      if (part?.$case === "begin") begin = part.value;
      else if (part?.$case === "chunk") nodes.push(...part.value.upserts);
      else commit = part?.value;
    }
    if (!begin || !commit) throw invalid("the upload has no begin or no commit");
    const { setId, revision, nodeCount } = begin;
    const counts = new Set([new Set(nodes.map(({ name }) => name)).size, nodes.length, nodeCount, commit.changeCount]);
    if (counts.size > 1) throw invalid(`the nodes of the upload and its counts are different: ${[...counts].join(", ")}`);
    const others = this.held.filter((one) => one.setId !== setId || one.revision !== revision);
    this.held = [...others, { setId, revision, nodes }].slice(-KEPT_REVISIONS);
    return { revision };
  };
}
