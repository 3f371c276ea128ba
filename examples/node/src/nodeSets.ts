/** NodeSetsService: the targets of load balancers, sent once and then named by their revision. */
import type { Node } from "../gen/cloudprovider/v1/common.js";
import type * as api from "../gen/cloudprovider/v1/node_sets.js";
import { ProviderError } from "./errors.js";

type Revisions = Map<string, ReadonlyMap<string, Node>>;

/** Calls under way may name the revision before the latest. */
const KEPT_REVISIONS = 2;
const KEPT_SETS = 16;

const invalid = (message: string) => new ProviderError("INVALID_REQUEST", message);

export class NodeSets {
  /** In both maps the one that was synced last comes last. */
  private readonly sets = new Map<string, Revisions>();

  resolve(targets: api.NodeTargets | undefined): Node[] {
    const named = targets?.targets;
    if (named?.$case === "inline") return named.value.nodes;
    if (named === undefined) throw invalid("the request has no targets");
    const { setId, revision } = named.value;
    const nodes = this.sets.get(setId)?.get(revision);
    if (!nodes) throw new ProviderError("NODE_SET_UNKNOWN", `revision ${revision} of node set ${setId} is not held`);
    return [...nodes.values()];
  }

  /** Applies nothing before the commit: the end of a cancelled upload can look like any other. */
  readonly sync = async (parts: AsyncIterable<api.SyncNodeSetRequest>): Promise<api.SyncNodeSetResponse> => {
    let begin, commit;
    let nodes = new Map<string, Node>();
    const changed: string[] = [];
    for await (const { part } of parts) {
      if (!part || commit || (part.$case === "begin") !== !begin) throw invalid("the parts are out of order");
      if (part.$case === "begin") {
        begin = part.value;
        if (!begin.setId || !begin.revision) throw invalid("begin names no set or no revision");
        const base = this.sets.get(begin.setId)?.get(begin.baseRevision);
        if (begin.baseRevision && !base) throw new ProviderError("NODE_SET_BASE_MISMATCH", "the base is not held");
        nodes = new Map(base);
      } else if (part.$case === "chunk") {
        for (const node of part.value.upserts) nodes.set(node.name, node);
        for (const name of part.value.removals) if (!nodes.delete(name)) throw invalid(`${name} is not there`);
        changed.push(...part.value.upserts.map(({ name }) => name), ...part.value.removals);
      } else {
        commit = part.value;
      }
    }
    if (!begin || !commit) throw invalid("the upload ended without a commit");
    if (new Set(changed).size < changed.length) throw invalid("a node comes twice");
    if (commit.changeCount !== changed.length) throw invalid(`${String(changed.length)} changes, other than announced`);
    if (begin.nodeCount !== nodes.size) throw invalid(`${String(nodes.size)} nodes in the set, other than announced`);
    const revisions: Revisions = this.sets.get(begin.setId) ?? new Map<string, ReadonlyMap<string, Node>>();
    keepLast(revisions, begin.revision, nodes, KEPT_REVISIONS);
    keepLast(this.sets, begin.setId, revisions, KEPT_SETS);
    return { revision: begin.revision };
  };
}

function keepLast<T>(map: Map<string, T>, key: string, value: T, most: number): void {
  map.delete(key);
  map.set(key, value);
  for (const oldest of map.keys()) if (map.size > most) map.delete(oldest);
}
