/** Errors of the contract: a reason, and the details in which it travels. */
import { Metadata, status } from "@grpc/grpc-js";
import { type ErrorReason, KubernetesEffects } from "./gen/cloudprovider/v1/common.js";
import { ErrorInfo, RetryInfo } from "./gen/google/rpc/error_details.js";
import { Status } from "./gen/google/rpc/status.js";
import { type DeepPartial, whole } from "./partial.js";

/** Decides what the controller does after an error: the comments of `v1.ErrorReason` say what each one leads to. */
export type Reason = Exclude<keyof typeof ErrorReason, "UNSPECIFIED" | "UNRECOGNIZED">;

/** The gRPC code that goes with each reason: its option grpc_code in the contract. */
const CODES: Readonly<Record<Reason, status>> = {
  INVALID_REQUEST: status.INVALID_ARGUMENT,
  INVALID_ANNOTATION: status.INVALID_ARGUMENT,
  UNSUPPORTED_PROTOCOL: status.INVALID_ARGUMENT,
  MALFORMED_PROVIDER_ID: status.INVALID_ARGUMENT,
  UNSUPPORTED_FEATURE: status.INVALID_ARGUMENT,
  MALFORMED_VOLUME_HANDLE: status.INVALID_ARGUMENT,
  DEPENDENCY_NOT_READY: status.FAILED_PRECONDITION,
  CONFLICTING_RESOURCE: status.FAILED_PRECONDITION,
  NODE_SET_UNKNOWN: status.FAILED_PRECONDITION,
  NOT_HANDSHAKED: status.FAILED_PRECONDITION,
  VERSION_UNSUPPORTED: status.FAILED_PRECONDITION,
  OPERATION_IN_PROGRESS: status.ABORTED,
  CONFLICT: status.ABORTED,
  RATE_LIMITED: status.RESOURCE_EXHAUSTED,
  QUOTA_EXCEEDED: status.RESOURCE_EXHAUSTED,
  OVERLOADED: status.RESOURCE_EXHAUSTED,
  CREDENTIALS_INVALID: status.UNAUTHENTICATED,
  PERMISSION_MISSING: status.PERMISSION_DENIED,
  CLOUD_UNAVAILABLE: status.UNAVAILABLE,
  SHUTTING_DOWN: status.UNAVAILABLE,
  CAPABILITY_DISABLED: status.UNIMPLEMENTED,
  CLOUD_ERROR: status.INTERNAL,
  CONFLICTING_OPTIONS: status.INVALID_ARGUMENT,
};

/** The parts of an error besides its text. */
export interface ErrorOptions {
  /** When to call again, in seconds. RATE_LIMITED without it says 1. */
  retryAfter?: number;
  /** Events, annotations and conditions to write in spite of the failure. */
  effects?: DeepPartial<KubernetesEffects>;
  /** The error behind this one; it is not sent. */
  cause?: unknown;
}

/**
 * A deliberate error. Its reason alone decides what the controller does; the text, of at most 1 KiB, ends up in events
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
    this.effects = effects && whole(KubernetesEffects, effects);
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
const TYPE = "type.googleapis.com/";

/** True of an error whose text may be sent. */
export function isMeant(error: unknown): error is ProviderError | Failure {
  return error instanceof ProviderError || error instanceof Failure;
}

/** True where other calls of the class would fail alike, so that the controller pauses them. */
export function stopsTheClass(error: unknown): error is ProviderError {
  return error instanceof ProviderError && ["RATE_LIMITED", "CREDENTIALS_INVALID", "CLOUD_UNAVAILABLE"].includes(error.reason);
}

/** The error of one node of a batch; its effects go beside it. */
export function statusOf(error: ProviderError | Failure): Status {
  const { message } = error;
  if (error instanceof Failure) return { code: error.code, message, details: [] };
  const { reason, retryAfter } = error;
  const details = [{ typeUrl: `${TYPE}google.rpc.ErrorInfo`, value: ErrorInfo.encode({ domain: DOMAIN, reason, metadata: {} }).finish() }];
  if (retryAfter > 0) {
    details.push({ typeUrl: `${TYPE}google.rpc.RetryInfo`, value: RetryInfo.encode({ retryDelay: durationOf(retryAfter) }).finish() });
  }
  return { code: CODES[reason], message, details };
}

/** The error of a call as grpc-js sends it: it has no builder for details, and the value of a key that ends in -bin is bytes. */
export function grpcError(error: ProviderError | Failure) {
  const sent = statusOf(error);
  if (error instanceof ProviderError && error.effects) {
    sent.details.push({ typeUrl: `${TYPE}${DOMAIN}.KubernetesEffects`, value: KubernetesEffects.encode(error.effects).finish() });
  }
  const metadata = new Metadata();
  if (sent.details.length > 0) metadata.set("grpc-status-details-bin", Buffer.from(Status.encode(sent).finish()));
  return { code: sent.code as unknown as status, details: sent.message, metadata };
}

/** A duration of the contract. */
export function durationOf(seconds: number): { seconds: number; nanos: number } {
  return { seconds: Math.floor(seconds), nanos: Math.round((seconds % 1) * 1e9) };
}
