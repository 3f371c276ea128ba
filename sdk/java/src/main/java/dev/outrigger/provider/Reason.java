package dev.outrigger.provider;

import com.google.rpc.Code;
import dev.outrigger.cloudprovider.v1.ErrorReason;
import dev.outrigger.cloudprovider.v1.OptionsProto;

/** Decides what the controller does with an error. */
public enum Reason {
  /** The request breaks the contract. Not repeated until the object changes. */
  INVALID_REQUEST,
  /** An annotation, or a field that each cloud reads its own way, has a bad value. Shown, not repeated until the object changes. */
  INVALID_ANNOTATION,
  /** The cloud cannot serve this protocol or port. Likewise. */
  UNSUPPORTED_PROTOCOL,
  /** The provider's prefix, but no ID of this cloud. Likewise. */
  MALFORMED_PROVIDER_ID,
  /** The cloud cannot serve something else that this object asks for. Likewise. */
  UNSUPPORTED_FEATURE,
  /** The provider's driver, but no handle of this cloud. Likewise. */
  MALFORMED_VOLUME_HANDLE,
  /** Something else must happen first. Repeated with back-off. */
  DEPENDENCY_NOT_READY,
  /** A foreign resource of the cloud is in the way. Repeated with back-off. */
  CONFLICTING_RESOURCE,
  /** The server answers this by itself, like the next three. */
  NODE_SET_UNKNOWN,
  /** The server answers this by itself. */
  NODE_SET_BASE_MISMATCH,
  /** The server answers this by itself. */
  NOT_HANDSHAKED,
  /** The server answers this by itself. */
  VERSION_UNSUPPORTED,
  /** Another call works on this object. Repeated after {@code retryAfter} or 5 s. */
  OPERATION_IN_PROGRESS,
  /** An optimistic lock of the cloud was lost. Repeated with back-off. */
  CONFLICT,
  /** The cloud limits the rate of calls: the class of calls pauses for {@code retryAfter}. */
  RATE_LIMITED,
  /** A limit of the account or of one object. Concerns this object only. */
  QUOTA_EXCEEDED,
  /** This process is full: the class of calls pauses for 1 s. */
  OVERLOADED,
  /** The cloud refuses the credentials: all calls pause. */
  CREDENTIALS_INVALID,
  /** One action of the cloud is not allowed; the message names it. */
  PERMISSION_MISSING,
  /** The cloud's API is down: the class of calls backs off. */
  CLOUD_UNAVAILABLE,
  /** The process is ending; the server answers this by itself. */
  SHUTTING_DOWN,
  /** The method is not served, whatever the object. */
  CAPABILITY_DISABLED,
  /** The cloud refused or failed this one object; the message is shown as it is. */
  CLOUD_ERROR;

  private final Code code =
      ErrorReason.valueOf("ERROR_REASON_" + name()).getValueDescriptor().getOptions().getExtension(OptionsProto.grpcCode);

  /** The gRPC code of the reason. */
  Code code() {
    return code;
  }

  /** Whether other calls of the class would fail alike, so that the controller pauses them. */
  boolean stopsTheClass() {
    return this == RATE_LIMITED || this == CREDENTIALS_INVALID || this == CLOUD_UNAVAILABLE;
  }
}
