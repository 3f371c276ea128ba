package dev.outrigger.provider;

import dev.outrigger.cloudprovider.v1.*;

/** Answers about the instance of a Node; their builders take effects, and the server fills in the key. */
public final class Lookup {
  private Lookup() {}

  /** The cloud has it. */
  public static InstanceResult found(Instance instance) {
    return InstanceResult.newBuilder().setFound(instance).build();
  }

  /**
   * The cloud was asked during this call, with the permission to see every machine of the cluster, answered in full,
   * and has no such machine. THE NODE MAY BE DELETED.
   */
  public static InstanceResult absent() {
    return absent(Absent.newBuilder().setCertainty(AbsenceCertainty.ABSENCE_CERTAINTY_CONFIRMED));
  }

  /** There is none, but that may be a cache or eventual consistency. Deletes nothing. */
  public static InstanceResult notVisibleYet(String reason) {
    return absent(Absent.newBuilder().setCertainty(AbsenceCertainty.ABSENCE_CERTAINTY_NOT_VISIBLE_YET).setReason(reason));
  }

  private static InstanceResult absent(Absent.Builder absent) {
    return InstanceResult.newBuilder().setAbsent(absent).build();
  }

  /** Another provider, or none, owns the machine. Logs have the reason. */
  public static InstanceResult notManaged(String reason) {
    return InstanceResult.newBuilder().setNotManaged(NotManaged.newBuilder().setReason(reason)).build();
  }

  /** The error of this Node alone, in a batch of {@link Instances#getInstances}. */
  public static InstanceResult failed(Call call, Exception error) {
    InstanceResult.Builder result = InstanceResult.newBuilder().setError(ProviderException.statusOf(error, call.requestId));
    if (error instanceof ProviderException deliberate) {
      call.cloudFailure = deliberate.stopsTheClass() ? deliberate : call.cloudFailure;
      if (deliberate.effects != null) {
        result.setEffects(deliberate.effects);
      }
    }
    return result.build();
  }
}
