/** Between grpc-js, which speaks callbacks and events, and handlers that are async functions. */
import { type EventEmitter, once } from "node:events";
import * as grpc from "@grpc/grpc-js";
import type { CallContext } from "../gen/cloudprovider/v1/common.js";
import { ProviderError } from "./errors.js";

type Call = EventEmitter & { getPath(): string };

/** One line of JSON for each event, on stderr. */
export function log(message: string, fields: Record<string, unknown> = {}): void {
  const plain = (_: string, value: unknown) => (value instanceof Error ? value.stack : value);
  console.error(JSON.stringify({ time: new Date().toISOString(), message, ...fields }, plain));
}

/** The tag of all resources of the cluster. A call without it could touch another cluster's. */
export function clusterUid(context: CallContext | undefined): string {
  if (!context?.clusterUid) throw new ProviderError("INVALID_REQUEST", "the call has no cluster_uid to tag with");
  return context.clusterUid;
}

/** Handlers for a server. The signal that they pass on is aborted by a cancel, a deadline and a lost connection. */
export class Calls {
  /** Set at SIGTERM: calls that arrive from then on are refused. */
  ending = false;

  unary<Q, S>(work: (request: Q, signal: AbortSignal) => S | Promise<S>): grpc.handleUnaryCall<Q, S> {
    return (call, reply) => void this.run(call, (signal) => work(call.request, signal)).then(
      (answer) => { reply(null, answer); }, reply);
  }

  upload<Q, S>(work: (parts: AsyncIterable<Q>) => Promise<S>): grpc.handleClientStreamingCall<Q, S> {
    return (call, reply) => void this.run(call, () => work(call)).then((answer) => { reply(null, answer); }, reply);
  }

  /** The work writes its answers with `send`, which resolves once the reader has room for another. */
  stream<Q, S>(
    work: (request: Q, send: (answer: S) => Promise<void>, signal: AbortSignal) => Promise<void>,
  ): grpc.handleServerStreamingCall<Q, S> {
    return (call) => {
      let sent = Promise.resolve();
      const write = async (answer: S, signal: AbortSignal) => {
        if (!call.write(answer)) await once(call, "drain", { signal });
      };
      const begin = (signal: AbortSignal) =>
        work(call.request, (answer) => sent = sent.then(() => write(answer, signal)), signal);
      this.run(call, begin)
        .then(() => call.end(), (error: unknown) => call.emit("error", error));
    };
  }

  private async run<T>(call: Call, work: (signal: AbortSignal) => T | Promise<T>): Promise<T> {
    const abort = new AbortController();
    call.on("cancelled", () => { abort.abort(); });
    try {
      if (this.ending) throw new ProviderError("SHUTTING_DOWN", "the provider is ending");
      return await work(abort.signal);
    } catch (error) {
      // grpc-js answers a defect as UNKNOWN, without our ErrorInfo: the controller repeats the call.
      const isMeant = error instanceof ProviderError || abort.signal.aborted;
      if (!isMeant) log("call failed", { method: call.getPath(), error });
      throw error;
    }
  }
}

/** One piece of work for each key at a time; the next one waits until it has ended, even if its call was cancelled. */
export class Locks {
  private readonly tails = new Map<string, Promise<unknown>>();

  hold<T>(key: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    const mine = (this.tails.get(key) ?? Promise.resolve()).then(() => {
      signal.throwIfAborted();
      return work();
    });
    const tail = mine.catch(() => undefined).finally(() => this.tails.get(key) === tail && this.tails.delete(key));
    this.tails.set(key, tail);
    return mine;
  }
}
