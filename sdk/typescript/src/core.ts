/** The state that the services of one server share: who may call, and the handlers that run. */
import { type EventEmitter, once } from "node:events";
import type * as grpc from "@grpc/grpc-js";
import { Call, type Cluster } from "./call.js";
import { CloudStatus } from "./cloudStatus.js";
import { type Method, METHODS } from "./contract.js";
import { cut, Failure, grpcError, isMeant, ProviderError } from "./errors.js";
import type { CallContext } from "./gen/cloudprovider/v1/common.js";
import { log } from "./logging.js";

/** Each provider must accept messages of this size. */
export const DEFAULT_MESSAGE_BYTES = 4 << 20;

/** The latest handshake: a process serves one controller at a time, or an old one that ends while the next starts. */
interface Session {
  cluster: Cluster;
  maxSendBytes: number;
}

/** A request of a method that has a context. */
interface Request {
  context: CallContext | undefined;
}

/** The part that calls of each kind have in grpc-js. */
type GrpcCall = EventEmitter & { metadata: grpc.Metadata; cancelled: boolean; getDeadline(): Date | number };

/** The name of a method that has a context. */
export type MethodName = keyof typeof METHODS;

/** The state of one server. */
export class Core {
  readonly cloud = new CloudStatus();
  /** Calls that arrive from now on are refused. */
  isDraining = false;
  /** Requests of more bytes than the handshake names. */
  readonly tooLarge = new WeakSet();
  private session: Session | undefined;
  private readonly calls = new Set<Call>();
  private idle: () => void = () => undefined;
  private handlers = new Set<string>();

  constructor(readonly maxMessageBytes: number) {}

  /** Remembers whose calls are served. */
  shakeHands(cluster: Cluster, maxReceiveBytes: number): void {
    const last = this.session?.cluster;
    // A caller with fewer rights must not make resources that exist another cluster's.
    const uid = cluster.uid || (last?.name === cluster.name ? last.uid : "");
    this.session = { cluster: { ...cluster, uid }, maxSendBytes: maxReceiveBytes || DEFAULT_MESSAGE_BYTES };
  }

  /** A handler of a method with one answer. */
  unary<Q extends Request, S>(rpc: MethodName, work: (request: Q, call: Call) => Promise<S>): grpc.handleUnaryCall<Q, S> {
    return (call, reply) => void this.run(rpc, call, call.request, call.request.context, (facts) => work(call.request, facts))
      .then((answer) => { reply(null, answer); }, (error: unknown) => { reply(grpcError(error as Failure)); });
  }

  /** A handler that writes its answers with `send`, which resolves once the reader has room for another. */
  stream<Q extends Request, S>(
    rpc: MethodName, work: (request: Q, call: Call, send: (answer: S) => Promise<void>) => Promise<void>,
  ): grpc.handleServerStreamingCall<Q, S> {
    return (call) => {
      let sent = Promise.resolve();
      const write = async (answer: S, facts: Call) => {
        facts.check();
        if (!call.write(answer)) await once(call, "drain", { signal: facts.callerGone });
      };
      this.run(rpc, call, call.request, call.request.context, (facts) => work(call.request, facts, (answer) => {
        sent = sent.then(() => write(answer, facts));
        return sent;
      })).then(() => { call.end(); }, (error: unknown) => { call.emit("error", grpcError(error as Failure)); });
    };
  }

  /** A handler that reads a stream, whose first part has the context. */
  upload<Q extends object, S>(
    rpc: MethodName, contextOf: (first: Q) => CallContext | undefined, work: (parts: AsyncIterable<Q>, call: Call) => Promise<S>,
  ): grpc.handleClientStreamingCall<Q, S> {
    return (call, reply) => {
      const parts = call[Symbol.asyncIterator]() as AsyncIterator<Q>;
      const run = async () => {
        const first = await parts.next();
        if (first.done) throw new ProviderError("INVALID_REQUEST", "the upload is empty");
        const all = this.parts(first.value, parts);
        return this.run(rpc, call, first.value, contextOf(first.value), (facts) => work(all, facts));
      };
      run().then((answer) => { reply(null, answer); },
        (error: unknown) => { reply(grpcError(isMeant(error) ? error : new Failure("the upload broke"))); });
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

  /** Names of the handlers that have run since this was asked last. */
  recentHandlers(): string[] {
    const names = [...this.handlers];
    this.handlers = new Set([...this.calls].map(({ rpc }) => rpc));
    return names;
  }

  private async *parts<Q extends object>(first: Q, rest: AsyncIterator<Q>): AsyncGenerator<Q> {
    for (let part: IteratorResult<Q> = { value: first }; !part.done; part = await rest.next()) {
      this.checkSize(part.value);
      yield part.value;
    }
  }

  private async run<T>(
    rpc: MethodName, grpcCall: GrpcCall, request: object, context: CallContext | undefined, work: (call: Call) => Promise<T>,
  ): Promise<T> {
    const call = this.admit(rpc, grpcCall, request, context);
    this.calls.add(call);
    this.handlers.add(rpc);
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
      const reason = error instanceof ProviderError ? error.reason : "";
      call.log.info("call failed", { ...took(), reason, error: cut(error.message, 1024) });
      throw error;
    } finally {
      this.cloud.note(call.cloudFailure);
      call.end();
      this.calls.delete(call);
      if (this.calls.size === 0) this.idle();
    }
  }

  private admit(rpc: MethodName, grpcCall: GrpcCall, request: object, context: CallContext | undefined): Call {
    if (this.isDraining) throw shuttingDown();
    this.checkSize(request);
    const { cluster, maxSendBytes } = this.sessionOf(context?.clusterName ?? "");
    const method: Method = METHODS[rpc];
    const requestId = context?.requestId ?? "";
    const traceparent = traceparentOf(grpcCall.metadata);
    const items = method.isDeadlinePerItem && "items" in request && Array.isArray(request.items) ? request.items.length : 1;
    const deadline = new Date(Math.min(Number(grpcCall.getDeadline()), Date.now() + method.deadline * 1000 * items));
    return new Call({
      rpc, method, requestId, traceparent, deadline, maxSendBytes,
      // It may have become known since the handshake.
      cluster: { ...cluster, uid: (context?.clusterUid ?? "") || cluster.uid },
      log: log.with({ rpc, request_id: requestId, ...(traceparent && { traceparent }) }),
    });
  }

  private sessionOf(cluster: string): Session {
    if (!this.session) {
      throw new ProviderError("NOT_HANDSHAKED", "no handshake since this provider process started; call Handshake first");
    }
    const { name } = this.session.cluster;
    if (name === cluster) return this.session;
    const clusters = `the call is about cluster ${JSON.stringify(cluster)}, the latest handshake about ${JSON.stringify(name)}`;
    throw new ProviderError("NOT_HANDSHAKED", `${clusters}; call Handshake first`);
  }

  /** Refuses a request that is larger than the handshake names. */
  checkSize(request: object): void {
    if (!this.tooLarge.has(request)) return;
    throw new ProviderError("INVALID_REQUEST",
      `the request is larger than the ${String(this.maxMessageBytes)} bytes that this provider accepts (HandshakeResponse.max_receive_message_bytes)`);
  }
}

/** The refusal of a method that the provider does not have. */
export function notServed(rpc: MethodName): ProviderError {
  return new ProviderError("CAPABILITY_DISABLED", `this provider does not serve ${rpc}`);
}

/** The refusal of a call that arrives while the process ends. */
export function shuttingDown(): ProviderError {
  return new ProviderError("SHUTTING_DOWN", "this provider is ending; connect again");
}

function traceparentOf(metadata: grpc.Metadata): string {
  const [value] = metadata.get("traceparent");
  // W3C's form is 55 characters; a later version may be longer, but not endless.
  return typeof value === "string" && value.length <= 128 ? value : "";
}
