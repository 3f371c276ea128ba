/** Errors of the contract: a reason, and the details in which it travels. */
import { Metadata, status } from "@grpc/grpc-js";
import { CODES } from "./contract.js";
import { KubernetesEffects } from "./gen/cloudprovider/v1/common.js";
import { ErrorInfo, RetryInfo } from "./gen/google/rpc/error_details.js";
import { Status } from "./gen/google/rpc/status.js";
import { log } from "./logging.js";
import type { DeepPartial } from "./partial.js";

/** Decides what the controller does after an error: the comments of `v1.ErrorReason` say what each one leads to. */
export type Reason = keyof typeof CODES;

/** The parts of an error besides its text. */
export interface ErrorOptions {
  /** When to call again, in seconds. RATE_LIMITED without it says 1. */
  retryAfter?: number;
  /** Events, annotations and conditions to write in spite of the failure; left out beyond 4 KiB of details. */
  effects?: DeepPartial<KubernetesEffects>;
  /** The error behind this one; it is not sent. */
  cause?: unknown;
}

/**
 * A deliberate error. Its reason alone decides what the controller does; the text is cut to 1 KiB and ends up in events
 * and logs, so it must contain no secrets. Each other exception says nothing about the outcome: it is logged here, sent
 * without its text, and the call is repeated. An object that does not exist is no error but an answer.
 */
export class ProviderError extends Error {
  override readonly name = "ProviderError";
  readonly retryAfter: number;
  readonly effects: KubernetesEffects | undefined;

  constructor(readonly reason: Reason, message: string, { retryAfter, effects, cause }: ErrorOptions = {}) {
    super(message, { cause });
    this.retryAfter = Math.max(retryAfter ?? 0, reason === "RATE_LIMITED" ? 1 : 0);
    this.effects = effects && KubernetesEffects.fromPartial(effects as KubernetesEffects);
  }
}

/** An error without a reason whose text may be sent; what became of the call is unknown. */
export class Failure extends Error {
  override readonly name = "Failure";
  constructor(message: string, readonly code: status = status.INTERNAL) {
    super(message);
  }
}

/** The caller no longer waits: it cancelled, its deadline passed, its connection was lost, or the process is ending. */
export class CallerGone extends Failure {
  constructor() {
    super("the caller no longer waits for this call", status.CANCELLED);
  }
}

const DOMAIN = "cloudprovider.v1";
const MAX_MESSAGE_BYTES = 1 << 10;
const MAX_STATUS_BYTES = 4 << 10;
const TYPE = "type.googleapis.com/";

/** True of an error whose text may be sent. */
export function isMeant(error: unknown): error is ProviderError | Failure {
  return error instanceof ProviderError || error instanceof Failure;
}

/** True where other calls of the class would fail alike, so that the controller pauses them. */
export function stopsTheClass(error: unknown): error is ProviderError {
  return error instanceof ProviderError && ["RATE_LIMITED", "CREDENTIALS_INVALID", "CLOUD_UNAVAILABLE"].includes(error.reason);
}

/** The error of one item of a batch; its effects go beside it. */
export function statusOfItem(error: ProviderError | Failure): Status {
  const message = cut(error.message, MAX_MESSAGE_BYTES);
  if (error instanceof Failure) return { code: error.code, message, details: [] };
  const { reason, retryAfter } = error;
  const details = [{ typeUrl: `${TYPE}google.rpc.ErrorInfo`, value: ErrorInfo.encode({ domain: DOMAIN, reason, metadata: {} }).finish() }];
  if (retryAfter > 0) {
    const seconds = Math.floor(retryAfter);
    const retryDelay = { seconds, nanos: Math.round((retryAfter - seconds) * 1e9) };
    details.push({ typeUrl: `${TYPE}google.rpc.RetryInfo`, value: RetryInfo.encode({ retryDelay }).finish() });
  }
  return { code: CODES[reason], message, details };
}

/** The error of a whole call, with its effects among the details where they fit. */
export function statusOfCall(error: ProviderError | Failure): Status {
  const sent = statusOfItem(error);
  const effects = error instanceof ProviderError ? error.effects : undefined;
  if (effects === undefined) return sent;
  const value = KubernetesEffects.encode(effects).finish();
  const whole = { ...sent, details: [...sent.details, { typeUrl: `${TYPE}${DOMAIN}.KubernetesEffects`, value }] };
  const bytes = Status.encode(whole).finish().length;
  if (bytes <= MAX_STATUS_BYTES) return whole;
  log.warn("the effects beside an error are too large and are left out; send fewer or shorter ones", { bytes, limit: MAX_STATUS_BYTES });
  return sent;
}

/** The error as grpc-js sends it: it has no builder for details, and the value of a key that ends in -bin is bytes. */
export function grpcError(error: ProviderError | Failure) {
  const sent = statusOfCall(error);
  const metadata = new Metadata();
  if (sent.details.length > 0) metadata.set("grpc-status-details-bin", Buffer.from(Status.encode(sent).finish()));
  return { code: sent.code as unknown as status, details: sent.message, metadata };
}

/** At most so many bytes, cut on a character, with an ellipsis. */
export function cut(text: string, limit: number): string {
  const bytes = Buffer.from(text);
  if (bytes.length <= limit) return bytes.toString();
  let end = limit - Buffer.byteLength("…");
  // A byte 10xxxxxx goes on with a character.
  while (end > 0 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end--;
  return `${bytes.toString("utf8", 0, end)}…`;
}
