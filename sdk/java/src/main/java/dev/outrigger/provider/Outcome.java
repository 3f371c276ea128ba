package dev.outrigger.provider;

import com.google.protobuf.Message;
import dev.outrigger.cloudprovider.v1.Absent;
import dev.outrigger.cloudprovider.v1.AbsenceCertainty;
import dev.outrigger.cloudprovider.v1.KubernetesEffects;
import java.time.Duration;
import java.util.Objects;

/**
 * The answer about one item of a batch. An exception that a handler of one item throws is its error, too.
 *
 * @param <T> the message that is found
 */
public sealed interface Outcome<T extends Message> {
  /** The cloud has it. */
  static <T extends Message> Outcome<T> found(T message) {
    return new Found<>(Objects.requireNonNull(message, "found() needs a message; absent() says that there is none"));
  }

  /** As asked for: a route was made, or removed. */
  static <T extends Message> Outcome<T> done() {
    return new Done<>();
  }

  /**
   * The cloud was asked during this call, with the permission to see every object of that kind, answered in full, and
   * has no such object. THE NODE MAY BE DELETED.
   */
  static <T extends Message> Outcome<T> absent() {
    return absent(Duration.ZERO);
  }

  /** Likewise, with the age of that answer of the cloud: one from before this call is sent as not visible yet. */
  static <T extends Message> Outcome<T> absent(Duration age) {
    return new Missing<>(Absent.newBuilder().setCertainty(AbsenceCertainty.ABSENCE_CERTAINTY_CONFIRMED)
        .setAge(Statuses.duration(age.isNegative() ? Duration.ZERO : age)).build());
  }

  /** There is none, but that may be a cache or eventual consistency. Deletes nothing. */
  static <T extends Message> Outcome<T> notVisibleYet(String reason) {
    return new Missing<>(Absent.newBuilder().setCertainty(AbsenceCertainty.ABSENCE_CERTAINTY_NOT_VISIBLE_YET)
        .setReason(Statuses.cut(reason)).build());
  }

  /** Another provider, or none, owns the object. Logs have the reason. */
  static <T extends Message> Outcome<T> notManaged(String reason) {
    return new Foreign<>(Statuses.cut(reason));
  }

  /** The error of this item alone. */
  static <T extends Message> Outcome<T> failed(Exception error) {
    return new Failed<>(error);
  }

  /** The same outcome, and the events, annotations and conditions that go beside it. */
  default Outcome<T> with(KubernetesEffects effects) {
    return new WithEffects<>(this, effects);
  }

  /** See {@link Outcome#found}. */
  record Found<T extends Message>(T message) implements Outcome<T> {}

  /** See {@link Outcome#done}. */
  record Done<T extends Message>() implements Outcome<T> {}

  /** See {@link Outcome#absent} and {@link Outcome#notVisibleYet}. */
  record Missing<T extends Message>(Absent absent) implements Outcome<T> {}

  /** See {@link Outcome#notManaged}. */
  record Foreign<T extends Message>(String reason) implements Outcome<T> {}

  /** See {@link Outcome#failed}. */
  record Failed<T extends Message>(Exception error) implements Outcome<T> {}

  /** See {@link Outcome#with}. */
  record WithEffects<T extends Message>(Outcome<T> outcome, KubernetesEffects effects) implements Outcome<T> {}
}
