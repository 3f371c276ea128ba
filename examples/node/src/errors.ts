/** Errors of the contract: a reason, and the details in which it travels. */
import { Metadata, type status } from "@grpc/grpc-js";
import { ErrorInfo, RetryInfo } from "../gen/google/rpc/error_details.js";
import { Status } from "../gen/google/rpc/status.js";
import { CODES } from "./contract.js";

type Reason = keyof typeof CODES;

/** Reasons about the whole cloud, whichever item met them. */
const OF_ALL: readonly Reason[] = ["RATE_LIMITED", "CREDENTIALS_INVALID", "CLOUD_UNAVAILABLE"];
const TYPE = "type.googleapis.com/google.rpc.";

/** A deliberate error. Thrown, it is the error of the call: grpc-js sends `code`, `details` and `metadata`. */
export class ProviderError extends Error {
  readonly code: status;
  readonly details: string;
  readonly metadata = new Metadata();
  /** The error of one item of a batch. */
  readonly status: Status;

  constructor(readonly reason: Reason, message: string, retryAfterSeconds?: number) {
    // At most 1 KiB in the contract; messages quote what was sent.
    super(Buffer.from(message).subarray(0, 1000).toString());
    this.code = CODES[reason];
    this.details = this.message;
    const value = ErrorInfo.encode({ domain: "cloudprovider.v1", reason, metadata: {} }).finish();
    const details = [{ typeUrl: `${TYPE}ErrorInfo`, value }];
    // RATE_LIMITED without a time to wait breaks the contract.
    const seconds = Math.ceil(retryAfterSeconds ?? (reason === "RATE_LIMITED" ? 1 : 0));
    if (seconds > 0) {
      const retry = RetryInfo.fromPartial({ retryDelay: { seconds } });
      details.push({ typeUrl: `${TYPE}RetryInfo`, value: RetryInfo.encode(retry).finish() });
    }
    this.status = { code: this.code, message: this.message, details };
    // grpc-js has no builder for it. The value of a key that ends in -bin is bytes.
    this.metadata.set("grpc-status-details-bin", Buffer.from(Status.encode(this.status).finish()));
  }
}

/** The error of one item of a call; throws on for a defect, a cancel, and what concerns each item. */
export function errorOfItem(error: unknown): Status {
  if (error instanceof ProviderError && !OF_ALL.includes(error.reason)) return error.status;
  throw error;
}
