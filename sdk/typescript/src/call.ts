/** The facts of one call, which each handler gets. */
import type { Method } from "./contract.js";
import { CallerGone, Failure, isMeant, ProviderError, stopsTheClass } from "./errors.js";
import type { Logger } from "./logging.js";

/** The cluster that calls are about. */
export interface Cluster {
  /** The controller's --cluster-name. */
  name: string;
  /** --cluster-uid, else the UID of kube-system, for tags in the cloud. Empty: not known yet. */
  uid: string;
  /** At most one of each IP family. */
  podCidrs: readonly string[];
  /** Likewise. */
  serviceCidrs: readonly string[];
}

/** The facts that a call is made of. */
export interface CallFacts {
  rpc: string;
  method: Method;
  requestId: string;
  cluster: Cluster;
  traceparent: string;
  deadline: Date;
  maxSendBytes: number;
  log: Logger;
}

/** How long the signal of a call that changes the cloud outlives its caller: a request under way ends by itself. */
const CANCEL_GRACE_MS = 30_000;

/** One call of the controller. */
export class Call {
  /** The method's name, such as EnsureLoadBalancer. */
  readonly rpc: string;
  readonly method: Method;
  /** Names this attempt in logs and traces. The next attempt has another: a change is not idempotent by it. */
  readonly requestId: string;
  /** The cluster that the call is about. */
  readonly cluster: Cluster;
  /** W3C trace context of the caller; may be empty. */
  readonly traceparent: string;
  /** When the caller stops waiting. */
  readonly deadline: Date;
  /** The largest message that the controller accepts. */
  readonly maxSendBytes: number;
  /** Its lines name the call. */
  readonly log: Logger;
  /**
   * For requests to the cloud. It is aborted when the caller no longer waits; in a call that changes the cloud 30 s later,
   * so that a change under way is not cut off.
   */
  readonly signal: AbortSignal;
  /** Aborted when the caller no longer waits, whatever the call does. */
  readonly callerGone: AbortSignal;
  /** An error of this call that concerns the whole cloud. */
  cloudFailure: ProviderError | undefined;

  private readonly caller = new AbortController();
  private readonly work = new AbortController();
  private readonly overdue: NodeJS.Timeout;

  constructor(facts: CallFacts) {
    ({ rpc: this.rpc, method: this.method, requestId: this.requestId, cluster: this.cluster, traceparent: this.traceparent,
      deadline: this.deadline, maxSendBytes: this.maxSendBytes, log: this.log } = facts);
    this.callerGone = this.caller.signal;
    this.signal = this.method.changesCloud ? this.work.signal : this.callerGone;
    this.overdue = setTimeout(() => { this.giveUp(); }, Math.min(this.deadline.getTime() - Date.now(), 0x7fff_ffff)).unref();
  }

  /** The UID of the cluster, which tags what this cluster owns. Throws INVALID_REQUEST where it is not known. */
  get clusterUid(): string {
    if (!this.cluster.uid) throw new ProviderError("INVALID_REQUEST", "the UID of the cluster is not known, so nothing can be tagged with it");
    return this.cluster.uid;
  }

  /** Throws once the caller no longer waits. A handler asks before each change of the cloud: no further one may begin then. */
  check(): void {
    this.callerGone.throwIfAborted();
  }

  /** The key of an item of this batch. */
  keyOf(item: object): string {
    return String((item as Record<string, unknown>)[this.method.itemKey]);
  }

  /** The caller no longer waits. */
  giveUp(): void {
    if (this.callerGone.aborted) return;
    this.caller.abort(new CallerGone());
    setTimeout(() => { this.work.abort(new CallerGone()); }, CANCEL_GRACE_MS).unref();
  }

  /** The handler has ended. */
  end(): void {
    clearTimeout(this.overdue);
  }

  /** The error that is sent. An exception that is not meant is logged once, and its text stays here: it may contain anything. */
  meant(error: unknown): ProviderError | Failure {
    if (stopsTheClass(error)) this.cloudFailure = error;
    if (isMeant(error)) return error;
    if (this.signal.aborted && error instanceof Error && error.name === "AbortError") return new CallerGone();
    this.log.error("the provider's code threw", { handler: this.rpc, error });
    return new Failure(`the provider failed: look for request id ${this.requestId} in its log`);
  }
}
