/** The state that the services of one server share: who may call, and the handlers that run. */
import { type EventEmitter, once } from "node:events";
import type * as grpc from "@grpc/grpc-js";
import { Call, type Cluster } from "./call.js";
import { Failure, grpcError, ProviderError } from "./errors.js";
import type { CallContext } from "./gen/cloudprovider/v1/common.js";
import type { LoadBalancerIdentity } from "./gen/cloudprovider/v1/load_balancers.js";
import { type GetStatusResponse, Readiness } from "./gen/cloudprovider/v1/provider.js";
import type { List } from "./instances.js";
import { log } from "./logging.js";
import { type DeepPartial, type MessageType, whole } from "./partial.js";

/** The controller names a deadline with each call; another caller that names none waits so long. */
const MAX_DEADLINE_MS = 3_600_000;
/** A message of a list has no more bytes, unless an element has: the controller accepts no larger one. */
const PAGE_BYTES = 1 << 20;
/** When a message that grows slowly is sent: the caller cancels after a minute of silence. */
const PAGE_AGE_MS = 10_000;
/** A repeated field adds so many bytes to each element: its tag and its length. */
const ELEMENT_OVERHEAD = 6;

/** A request of a method that has a context. */
interface Request {
  context: CallContext | undefined;
  identity?: LoadBalancerIdentity | undefined;
}

/** A message of a list. */
export interface Page<T> { items: T[]; complete: boolean }

/** The part that calls of each kind have in grpc-js. */
type GrpcCall = EventEmitter & { metadata: grpc.Metadata; cancelled: boolean; getDeadline(): Date | number };

/** The state of one server. */
export class Core {
  /** READY, or DEGRADED after a call that the cloud as a whole has failed. Never BROKEN: a restart mends no cloud. */
  status: DeepPartial<GetStatusResponse> = { readiness: Readiness.READY };
  /** Calls that arrive from now on are refused. */
  isDraining = false;
  /** The cluster of the latest handshake: a process serves one controller at a time, or an old one that ends while the next starts. */
  private cluster: Cluster | undefined;
  private lastSuccess: Date | undefined;
  private readonly calls = new Set<Call>();
  private idle: () => void = () => undefined;

  /** Remembers whose calls are served. */
  shakeHands(cluster: Cluster): void {
    // A caller with fewer rights must not make resources that exist another cluster's.
    const uid = cluster.uid || (this.cluster?.name === cluster.name ? this.cluster.uid : "");
    this.cluster = { ...cluster, uid };
  }

  /** A handler of a method with one answer. */
  unary<Q extends Request, S>(rpc: string, work: (request: Q, call: Call) => Promise<S> | S, changesCloud = false): grpc.handleUnaryCall<Q, S> {
    return (call, reply) => void this.run(rpc, changesCloud, call, call.request, (facts) => work(call.request, facts))
      .then((answer) => { reply(null, answer); }, (error: unknown) => { reply(grpcError(error as Failure)); });
  }

  /** Likewise, of a method that changes the cloud. */
  change<Q extends Request, S>(rpc: string, work: (request: Q, call: Call) => Promise<S> | S): grpc.handleUnaryCall<Q, S> {
    return this.unary(rpc, work, true);
  }

  /** A handler of a list; its last message says that it is complete. A caller that reads slowly makes the handler wait. */
  list<Q extends Request, T extends object>(
    rpc: string, type: MessageType<T>, elements: (request: Q, call: Call) => List<NoInfer<T>>,
  ): grpc.handleServerStreamingCall<Q, Page<T>> {
    return (call) => {
      this.run(rpc, false, call, call.request, async (facts) => {
        for await (const page of pages(type, elements(call.request, facts))) {
          facts.check();
          if (!call.write(page)) await once(call, "drain", { signal: facts.callerGone });
        }
      }).then(() => { call.end(); }, (error: unknown) => { call.emit("error", grpcError(error as Failure)); });
    };
  }

  /** A handler that reads a stream, whose first part has the context. */
  upload<Q extends Request, S>(rpc: string, work: (parts: AsyncIterable<Q>) => Promise<S>): grpc.handleClientStreamingCall<Q, S> {
    return (call, reply) => {
      const parts = call[Symbol.asyncIterator]() as AsyncIterator<Q>;
      const run = async () => {
        const first = await parts.next();
        if (first.done) throw new ProviderError("INVALID_REQUEST", "the upload is empty");
        return this.run(rpc, false, call, first.value, () => work(rejoined(first, parts)));
      };
      run().then((answer) => { reply(null, answer); },
        (error: unknown) => { reply(grpcError(error instanceof ProviderError ? error : new Failure("the upload broke"))); });
    };
  }

  /** Waits for running calls: `patience` for them to end by themselves, `grace` more once their callers count as gone. */
  async drain(patience: number, grace: number): Promise<number> {
    this.isDraining = true;
    for (const milliseconds of [patience, grace]) {
      if (this.calls.size === 0) break;
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, milliseconds);
        this.idle = () => { clearTimeout(timer); resolve(); };
      });
      for (const call of this.calls) call.giveUp();
    }
    return this.calls.size;
  }

  /** Throws once the process ends. */
  admitNew(): void {
    if (this.isDraining) throw new ProviderError("SHUTTING_DOWN", "this provider is ending; connect again");
  }

  private async run<T>(rpc: string, changesCloud: boolean, grpcCall: GrpcCall, request: Request, work: (call: Call) => Promise<T> | T): Promise<T> {
    const call = this.admit(rpc, changesCloud, grpcCall, request.context);
    call.identity = request.identity;
    this.calls.add(call);
    grpcCall.on("cancelled", () => { call.giveUp(); });
    if (grpcCall.cancelled) call.giveUp();
    const began = performance.now();
    const took = () => ({ duration_ms: Math.round(performance.now() - began) });
    try {
      const answer = await work(call);
      call.log.debug("call ended", took());
      return answer;
    } catch (thrown) {
      const error = call.meant(thrown);
      call.log.info("call failed", { ...took(), reason: error instanceof ProviderError ? error.reason : "", error: error.message });
      throw error;
    } finally {
      this.note(call.cloudFailure);
      call.end();
      this.calls.delete(call);
      if (this.calls.size === 0) this.idle();
    }
  }

  private admit(rpc: string, changesCloud: boolean, grpcCall: GrpcCall, context: CallContext | undefined): Call {
    this.admitNew();
    const cluster = this.clusterNamed(context?.clusterName ?? "");
    const requestId = context?.requestId ?? "";
    const [trace] = grpcCall.metadata.get("traceparent");
    const traceparent = typeof trace === "string" ? trace : "";
    const deadline = new Date(Math.min(Number(grpcCall.getDeadline()), Date.now() + MAX_DEADLINE_MS));
    // The UID may have become known since the handshake.
    const named = { ...cluster, uid: (context?.clusterUid ?? "") || cluster.uid };
    return new Call(rpc, changesCloud, named, requestId, traceparent, deadline,
      log.with({ rpc, request_id: requestId, ...(traceparent && { traceparent }) }));
  }

  private note(failure: ProviderError | undefined): void {
    if (!failure) this.lastSuccess = new Date();
    const { READY, DEGRADED } = Readiness;
    this.status = failure
      ? { readiness: DEGRADED, dependencies: [{ name: "cloud", readiness: DEGRADED, message: failure.message, lastSuccess: this.lastSuccess }] }
      : { readiness: READY };
  }

  private clusterNamed(cluster: string): Cluster {
    if (!this.cluster) {
      throw new ProviderError("NOT_HANDSHAKED", "no handshake since this provider process started; call Handshake first");
    }
    const { name } = this.cluster;
    if (name === cluster) return this.cluster;
    const clusters = `the call is about cluster ${JSON.stringify(cluster)}, the latest handshake about ${JSON.stringify(name)}`;
    throw new ProviderError("NOT_HANDSHAKED", `${clusters}; call Handshake first`);
  }
}

async function* rejoined<Q>(first: IteratorResult<Q>, rest: AsyncIterator<Q>): AsyncGenerator<Q> {
  for (let part = first; !part.done; part = await rest.next()) yield part.value;
}

/** The messages of a list. */
async function* pages<T extends object>(type: MessageType<T>, elements: List<NoInfer<T>>): AsyncGenerator<Page<T>> {
  let items: T[] = [];
  let bytes = 0;
  let since = Date.now();
  for await (const partial of elements) {
    const message = whole(type, partial);
    const size = type.encode(message).finish().length + ELEMENT_OVERHEAD;
    if (items.length > 0 && (bytes + size > PAGE_BYTES || Date.now() - since >= PAGE_AGE_MS)) {
      yield { items, complete: false };
      [items, bytes, since] = [[], 0, Date.now()];
    }
    items.push(message);
    bytes += size;
  }
  yield { items, complete: true };
}
