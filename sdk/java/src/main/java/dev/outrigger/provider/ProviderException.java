package dev.outrigger.provider;

import com.google.protobuf.Any;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import com.google.rpc.Status;
import dev.outrigger.cloudprovider.v1.KubernetesEffects;
import java.time.Duration;

/**
 * A deliberate error of a provider, of a call or of one item: its reason alone decides what the controller does.
 *
 * <p>The text is cut to 1 KiB and ends up in events and logs, so it must contain no secrets. An exception of another
 * type tells the controller nothing about the outcome: it repeats the call with back-off.
 */
public final class ProviderException extends RuntimeException {
  private static final long serialVersionUID = 1;
  private static final String DOMAIN = "cloudprovider.v1";
  private static final int MOST_STATUS_BYTES = 4 << 10;

  private final Reason reason;
  private final Duration retryAfter;
  private final KubernetesEffects effects;

  /** An error of this reason. */
  public ProviderException(Reason reason, String text) {
    this(reason, text, null, null, null);
  }

  /** An error of this reason, with the exception that led to it, which only the log shows. */
  public ProviderException(Reason reason, String text, Throwable cause) {
    this(reason, text, null, null, cause);
  }

  private ProviderException(Reason reason, String text, Duration retryAfter, KubernetesEffects effects, Throwable cause) {
    super(text, cause);
    this.reason = reason;
    this.effects = effects;
    boolean isNamed = retryAfter != null && !retryAfter.isNegative() && !retryAfter.isZero();
    // A pause must be named.
    this.retryAfter = isNamed ? retryAfter : reason == Reason.RATE_LIMITED ? Duration.ofSeconds(1) : null;
  }

  /** The same error, to be repeated after a time that is above zero. */
  public ProviderException retryAfter(Duration time) {
    return new ProviderException(reason, getMessage(), time, effects, getCause());
  }

  /** The same error with effects, which are written in spite of it; they are left out where they do not fit into 4 KiB. */
  public ProviderException effects(KubernetesEffects besides) {
    return new ProviderException(reason, getMessage(), retryAfter, besides, getCause());
  }

  /** Decides what the controller does. */
  public Reason reason() {
    return reason;
  }

  KubernetesEffects effects() {
    return effects;
  }

  ProviderException withoutEffects() {
    return new ProviderException(reason, getMessage(), retryAfter, null, null);
  }

  /** The status of one item, whose effects travel beside it. */
  Status itemStatus() {
    Status.Builder status = Status.newBuilder().setCode(reason.code().getNumber()).setMessage(Statuses.cut(getMessage()));
    status.addDetails(Any.pack(ErrorInfo.newBuilder().setDomain(DOMAIN).setReason(reason.name()).build()));
    if (retryAfter != null) {
      status.addDetails(Any.pack(RetryInfo.newBuilder().setRetryDelay(Statuses.duration(retryAfter)).build()));
    }
    return status.build();
  }

  /** The status of a whole call, with the effects among its details. */
  Status callStatus() {
    Status status = itemStatus();
    if (effects == null) {
      return status;
    }
    Status complete = status.toBuilder().addDetails(Any.pack(effects)).build();
    if (complete.getSerializedSize() <= MOST_STATUS_BYTES) {
      return complete;
    }
    Logs.warn("the effects beside an error are too large and were left out; send fewer or shorter ones",
        "bytes", complete.getSerializedSize(), "limit", MOST_STATUS_BYTES);
    return status;
  }
}
