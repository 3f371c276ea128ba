/** Errors of the contract: a reason, its gRPC code, and the details in which both travel. */
import { Metadata, status } from "@grpc/grpc-js";
import { ErrorInfo } from "../gen/google/rpc/error_details.js";
import { Status } from "../gen/google/rpc/status.js";

/** The reasons that this provider gives, as in proto/reasons.txt. */
const CODES = {
  INVALID_REQUEST: status.INVALID_ARGUMENT,
  INVALID_ANNOTATION: status.INVALID_ARGUMENT,
  UNSUPPORTED_PROTOCOL: status.INVALID_ARGUMENT,
  UNSUPPORTED_FEATURE: status.INVALID_ARGUMENT,
  MALFORMED_PROVIDER_ID: status.INVALID_ARGUMENT,
  NODE_SET_UNKNOWN: status.FAILED_PRECONDITION,
  NODE_SET_BASE_MISMATCH: status.FAILED_PRECONDITION,
  VERSION_UNSUPPORTED: status.FAILED_PRECONDITION,
  QUOTA_EXCEEDED: status.RESOURCE_EXHAUSTED,
  SHUTTING_DOWN: status.UNAVAILABLE,
} as const;

/** A deliberate error. Thrown, it is that of the call: grpc-js sends `code`, `details` and `metadata`. */
export class ProviderError extends Error {
  readonly code: status;
  readonly details: string;
  readonly metadata = new Metadata();
  /** As the error of one item of a batch. */
  readonly status: Status;

  constructor(reason: keyof typeof CODES, message: string) {
    // At most 1 KiB in the contract; messages quote what was sent.
    super(Buffer.from(message).subarray(0, 1000).toString());
    this.code = CODES[reason];
    this.details = this.message;
    const value = ErrorInfo.encode({ domain: "cloudprovider.v1", reason, metadata: {} }).finish();
    const details = [{ typeUrl: "type.googleapis.com/google.rpc.ErrorInfo", value }];
    this.status = { code: this.code, message: this.message, details };
    // grpc-js has no builder for it. The value of a key that ends in -bin is bytes.
    this.metadata.set("grpc-status-details-bin", Buffer.from(Status.encode(this.status).finish()));
  }
}
