/** The facts of one call, which each handler gets. */
import { CallerGone, Failure, isMeant, ProviderError, stopsTheClass } from "./errors.js";
import type { LoadBalancerIdentity } from "./gen/cloudprovider/v1/load_balancers.js";
import type { Logger } from "./logging.js";

/** The cluster that calls are about. */
export interface Cluster {
  /** The controller's --cluster-name. */
  readonly name: string;
  /** --cluster-uid, else the UID of kube-system, for tags in the cloud. Empty: not known yet. */
  readonly uid: string;
  /** At most one of each IP family. */
  readonly podCidrs: readonly string[];
  /** Likewise. */
  readonly serviceCidrs: readonly string[];
}

/** How long the signal of a call that changes the cloud outlives its caller: a request under way ends by itself. */
const CANCEL_GRACE_MS = 30_000;

/** One call of the controller. */
export class Call {
  /**
   * For requests to the cloud. It is aborted when the caller no longer waits; in a call that changes the cloud 30 s later,
   * so that a change under way is not cut off.
   */
  readonly signal: AbortSignal;
  /** Aborted when the caller no longer waits, whatever the call does. */
  readonly callerGone: AbortSignal;
  /**
   * In a call about a load balancer: its identity in the last answer, where there was one. A hint for a cloud whose lists
   * lag behind its creations: look by it first, and act only on what carries the Service's UID.
   */
  identity: LoadBalancerIdentity | undefined;
  /** An error of this call that concerns the whole cloud. */
  cloudFailure: ProviderError | undefined;

  private readonly caller = new AbortController();
  private readonly work = new AbortController();
  private readonly overdue: NodeJS.Timeout;

  constructor(
    /** The method's name, such as EnsureLoadBalancer. */
    readonly rpc: string,
    /** The call makes, changes or deletes something in the cloud. */
    changesCloud: boolean,
    /** The cluster that the call is about. */
    readonly cluster: Cluster,
    /** Names this attempt in logs and traces. The next attempt has another: a change is not idempotent by it. */
    readonly requestId: string,
    /** W3C trace context of the caller; may be empty. */
    readonly traceparent: string,
    /** When the caller stops waiting. */
    readonly deadline: Date,
    /** Its lines name the call. */
    readonly log: Logger,
  ) {
    this.callerGone = this.caller.signal;
    this.signal = changesCloud ? this.work.signal : this.callerGone;
    this.overdue = setTimeout(() => { this.giveUp(); }, deadline.getTime() - Date.now()).unref();
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
