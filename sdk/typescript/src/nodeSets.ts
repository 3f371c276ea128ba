/** NodeSetsService: the targets of load balancers, sent once and then named by their revision. */
import type { Core } from "./core.js";
import { ProviderError } from "./errors.js";
import type { Node } from "./gen/cloudprovider/v1/common.js";
import type * as api from "./gen/cloudprovider/v1/node_sets.js";

/** Calls under way still name the revision before the latest. */
const KEPT_REVISIONS = 2;

/**
 * The backend nodes of a load balancer, ordered by name, each name once. Labels, annotations, taints, ready and
 * unschedulable are as they were at the call; a change of one of them leads to no call, so choose no target by them.
 */
export class Targets {
  readonly nodes: readonly Node[];

  /**
   * `revision` names the content, for logs and as a key of a cache: the nodes of equal revisions have equal names, provider
   * IDs, addresses and Pod CIDRs. Empty where the nodes came with the call. If two nodes have one name, the first counts.
   */
  constructor(nodes: Iterable<Node>, readonly revision = "") {
    const names = new Set<string>();
    this.nodes = [...nodes].filter(({ name }) => !names.has(name) && names.add(name)).sort((a, b) => (a.name < b.name ? -1 : 1));
  }
}

function invalid(message: string): ProviderError {
  return new ProviderError("INVALID_REQUEST", message);
}

/** The latest revisions of the node set that the controller has uploaded. */
export class NodeSets {
  private setId = "";
  /** The one that was synced last comes last. */
  private revisions: readonly Targets[] = [];

  /** The handler of SyncNodeSet. */
  service(core: Core): api.NodeSetsServiceServer {
    return {
      syncNodeSet: core.upload("SyncNodeSet", (first: api.SyncNodeSetRequest) => beginOf(first).context, (parts) => this.sync(parts)),
    };
  }

  /** The nodes that a call names or brings along. */
  resolve(targets: api.NodeTargets | undefined): Targets {
    const choice = targets?.targets;
    if (choice?.$case === "inline") return new Targets(choice.value.nodes);
    if (choice === undefined) throw invalid("the request has no targets; name a node set or send nodes inline, empty ones for no targets");
    const { setId, revision } = choice.value;
    const targetsOfRevision = this.get(setId, revision);
    if (targetsOfRevision) return targetsOfRevision;
    throw new ProviderError("NODE_SET_UNKNOWN", `revision ${JSON.stringify(revision)} of node set ${JSON.stringify(setId)} is not known here; sync a snapshot and call again`);
  }

  /** Applies the whole upload, or nothing of it: the end of one that was cancelled can look like any other. */
  async sync(parts: AsyncIterable<api.SyncNodeSetRequest>): Promise<api.SyncNodeSetResponse> {
    let upload: Upload | undefined;
    for await (const message of parts) {
      const { part } = message;
      if (upload === undefined) {
        const begin = beginOf(message);
        upload = new Upload(begin, this.base(begin));
      } else if (part?.$case === "commit") {
        this.add(upload.setId, upload.commit(part.value));
        return { revision: upload.revision };
      } else if (part?.$case === "chunk") {
        upload.add(part.value);
      } else {
        throw invalid("the upload has a part between begin and commit that is no chunk");
      }
    }
    throw invalid("the upload ended without commit; nothing was applied");
  }

  private get(setId: string, revision: string): Targets | undefined {
    return setId === this.setId ? this.revisions.find((one) => one.revision === revision) : undefined;
  }

  private base({ setId, baseRevision }: api.NodeSetBegin): Targets {
    if (!baseRevision) return new Targets([]);
    const base = this.get(setId, baseRevision);
    if (base) return base;
    throw new ProviderError("NODE_SET_BASE_MISMATCH",
      `revision ${JSON.stringify(baseRevision)} of node set ${JSON.stringify(setId)}, which the upload changes, is not known here; sync a snapshot`);
  }

  private add(setId: string, targets: Targets): void {
    const others = setId === this.setId ? this.revisions.filter(({ revision }) => revision !== targets.revision) : [];
    this.setId = setId;
    this.revisions = [...others, targets].slice(-KEPT_REVISIONS);
  }
}

/** The first message of an upload. */
function beginOf({ part }: api.SyncNodeSetRequest): api.NodeSetBegin {
  if (part?.$case !== "begin") throw invalid("the upload does not start with begin");
  return part.value;
}

/** One sync of a node set. */
class Upload {
  readonly setId: string;
  readonly revision: string;
  /** By name; undefined: the node left. */
  private readonly changes = new Map<string, Node | undefined>();

  constructor(private readonly begin: api.NodeSetBegin, private readonly base: Targets) {
    ({ setId: this.setId, revision: this.revision } = begin);
  }

  add({ upserts, removals }: api.NodeSetChunk): void {
    for (const node of upserts) this.change(node.name, node);
    for (const name of removals) {
      if (!this.base.nodes.some((node) => node.name === name)) throw invalid(`the upload removes node ${JSON.stringify(name)}, which its base does not have`);
      this.change(name, undefined);
    }
  }

  commit({ changeCount }: api.NodeSetCommit): Targets {
    const kept = this.base.nodes.filter(({ name }) => !this.changes.has(name));
    const nodes = [...kept, ...[...this.changes.values()].filter((node) => node !== undefined)];
    if (changeCount !== this.changes.size || this.begin.nodeCount !== nodes.length) {
      const counts = `commit.change_count is ${String(changeCount)} and begin.node_count ${String(this.begin.nodeCount)}`;
      throw invalid(`${counts}, but the upload makes them ${String(this.changes.size)} and ${String(nodes.length)}; nothing was applied`);
    }
    return new Targets(nodes, this.revision);
  }

  private change(name: string, node: Node | undefined): void {
    if (this.changes.has(name)) throw invalid(`the upload has node ${JSON.stringify(name)} twice`);
    this.changes.set(name, node);
  }
}

