package dev.outrigger.provider;

import com.google.protobuf.Any;
import com.google.rpc.*;
import dev.outrigger.cloudprovider.v1.*;
import java.time.Duration;
import java.util.EnumSet;
import java.util.concurrent.CancellationException;
import java.util.concurrent.TimeoutException;

/**
 * A deliberate error of a provider, of a call or of one node: its reason alone decides what the controller does.
 *
 * <p>The text, of at most 1 KiB, ends up in events and logs, so it must contain no secrets. An exception of another
 * type tells the controller nothing about the outcome: it repeats the call with back-off.
 */
public final class ProviderException extends RuntimeException {
  private static final long serialVersionUID = 1;

  /** Decides what the controller does. */
  public final ErrorReason reason;
  private final Duration retryAfter;
  final KubernetesEffects effects;

  /** An error of this reason. */
  public ProviderException(ErrorReason reason, String text) {
    // A pause must be named.
    this(reason, text, reason == ErrorReason.ERROR_REASON_RATE_LIMITED ? Duration.ofSeconds(1) : Duration.ZERO, null);
  }

  private ProviderException(ErrorReason reason, String text, Duration retryAfter, KubernetesEffects effects) {
    super(text);
    this.reason = reason;
    this.retryAfter = retryAfter;
    this.effects = effects;
  }

  static ProviderException invalid(String text) {
    return new ProviderException(ErrorReason.ERROR_REASON_INVALID_REQUEST, text);
  }

  /** An optional method that the author has not written. */
  static ProviderException notServed(String method) {
    return new ProviderException(ErrorReason.ERROR_REASON_CAPABILITY_DISABLED, "this provider does not serve " + method);
  }

  /** The same error, to be repeated after a time. */
  public ProviderException retryAfter(Duration time) {
    return time.isZero() ? this : new ProviderException(reason, getMessage(), time, effects);
  }

  /** The same error with effects, which are written in spite of it. */
  public ProviderException effects(KubernetesEffects besides) {
    return new ProviderException(reason, getMessage(), retryAfter, besides);
  }

  /** True where other calls of the class would fail alike, so that the controller pauses them. */
  boolean stopsTheClass() {
    return EnumSet.of(ErrorReason.ERROR_REASON_RATE_LIMITED, ErrorReason.ERROR_REASON_CREDENTIALS_INVALID,
        ErrorReason.ERROR_REASON_CLOUD_UNAVAILABLE).contains(reason);
  }

  /** Without the effects: those of a call are among its details, those of a node beside its error. */
  private Status status() {
    Status.Builder status = Status.newBuilder().setMessage(getMessage())
        .setCode(reason.getValueDescriptor().getOptions().getExtension(OptionsProto.grpcCode).getNumber())
        .addDetails(Any.pack(ErrorInfo.newBuilder().setDomain("cloudprovider.v1")
            .setReason(reason.name().substring("ERROR_REASON_".length())).build()));
    return retryAfter.isZero() ? status.build()
        : status.addDetails(Any.pack(RetryInfo.newBuilder().setRetryDelay(duration(retryAfter)).build())).build();
  }

  /** The status of any exception. One that is not deliberate is logged, and not sent: its text may contain anything. */
  static Status statusOf(Throwable error, String requestId) {
    if (error instanceof ProviderException deliberate) {
      return deliberate.status();
    }
    boolean isCancelled = error instanceof CancellationException || error instanceof InterruptedException;
    if (isCancelled || error instanceof TimeoutException) {
      return Status.newBuilder().setCode(isCancelled ? Code.CANCELLED_VALUE : Code.DEADLINE_EXCEEDED_VALUE)
          .setMessage(isCancelled ? "the caller no longer waits" : "the cloud has not answered in time").build();
    }
    Logs.error("the provider failed", error, "request_id", requestId);
    return Status.newBuilder().setCode(Code.INTERNAL_VALUE)
        .setMessage("the provider failed: look for request id " + requestId + " in its log").build();
  }

  static com.google.protobuf.Duration duration(Duration time) {
    return com.google.protobuf.Duration.newBuilder().setSeconds(time.getSeconds()).setNanos(time.getNano()).build();
  }
}
