/** NodeSetsService: the targets of load balancers, sent once and then named by their revision. */
import type { Core } from "./core.js";
import { ProviderError } from "./errors.js";
import type { Node } from "./gen/cloudprovider/v1/common.js";
import type * as api from "./gen/cloudprovider/v1/node_sets.js";

/** Calls under way still name the revision before the latest. */
const KEPT_REVISIONS = 2;

/**
 * The backend nodes of a load balancer, ordered by name. Labels, annotations, taints, ready and unschedulable are some
 * seconds old, and a change of one of them leads to no call, so choose no target by them.
 */
export class Targets {
  readonly nodes: readonly Node[];

  /** `revision` is that of the node set, for logs. Empty where the nodes came with the call. */
  constructor(nodes: Iterable<Node>, readonly revision = "") {
    this.nodes = [...nodes].sort((a, b) => (a.name < b.name ? -1 : 1));
  }
}

/** The latest revisions of the node set that the controller has uploaded. */
export class NodeSets {
  /** Nodes by name; the revision that was synced last comes last. */
  private readonly revisions = new Map<string, ReadonlyMap<string, Node>>();

  /** The handler of NodeSetsService. */
  service(core: Core) {
    return { syncNodeSet: core.upload("SyncNodeSet", (parts: AsyncIterable<api.SyncNodeSetRequest>) => this.sync(parts)) };
  }

  /** The nodes that a call names or brings along. */
  resolve(targets: api.NodeTargets | undefined): Targets {
    const choice = targets?.targets;
    if (choice?.$case === "inline") return new Targets(choice.value.nodes);
    if (choice === undefined) throw new ProviderError("INVALID_REQUEST", "the request has no targets; name a revision or send nodes inline, an empty set for none");
    const { revision, only } = choice.value;
    const nodes = this.revisions.get(revision);
    if (!nodes) throw unknown(`revision ${JSON.stringify(revision)}`);
    if (!only) return new Targets(nodes.values(), revision);
    return new Targets(only.names.map((name) => nodes.get(name) ?? refuse(name, revision)), revision);
  }

  /** Applies the whole upload, or nothing of it: the end of one that was cancelled can look like any other. */
  private async sync(parts: AsyncIterable<api.SyncNodeSetRequest>): Promise<api.SyncNodeSetResponse> {
    const nodes = new Map<string, Node>();
    let count = 0;
    for await (const { nodes: more, complete, revision, nodeCount } of parts) {
      count += more.length;
      for (const node of more) nodes.set(node.name, node);
      if (!complete) continue;
      if (!revision || count !== nodeCount || nodes.size !== count) {
        throw new ProviderError("INVALID_REQUEST", `the upload of revision ${JSON.stringify(revision)} has ${String(count)} nodes with `
          + `${String(nodes.size)} names, and node_count is ${String(nodeCount)}; nothing was applied`);
      }
      this.revisions.delete(revision);
      this.revisions.set(revision, nodes);
      for (const old of [...this.revisions.keys()].slice(0, -KEPT_REVISIONS)) this.revisions.delete(old);
      return { revision };
    }
    throw new ProviderError("INVALID_REQUEST", "the upload ended without complete; nothing was applied");
  }
}

function unknown(what: string): ProviderError {
  return new ProviderError("NODE_SET_UNKNOWN", `${what} of the node set is not held here; sync the set and call again`);
}

function refuse(name: string, revision: string): never {
  throw unknown(`node ${JSON.stringify(name)} in revision ${JSON.stringify(revision)}`);
}
