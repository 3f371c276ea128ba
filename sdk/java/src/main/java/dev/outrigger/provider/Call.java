package dev.outrigger.provider;

import dev.outrigger.cloudprovider.v1.*;
import io.grpc.Context;
import io.grpc.Deadline;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.*;

/** The facts of a call, and whether its caller still waits. */
public final class Call {
  /** The call of the thread. */
  static final Context.Key<Call> CURRENT = Context.key("call");
  /** How long a handler of a change may run on after its caller has gone. */
  private static final int CANCEL_GRACE_SECONDS = 30;

  /** The cluster that the call is about: tag with {@link #clusterUid}. */
  public final ClusterInfo cluster;
  /** Names this attempt in logs, traces and the cloud's client tokens. It changes with the next attempt. */
  public final String requestId;
  /**
   * In a call about a load balancer: its identity in the last answer, empty where there was none. A hint for a cloud whose
   * lists lag behind its creations: look by it first, and act only on what carries the Service's UID.
   */
  public final LoadBalancerIdentity identity;

  final String rpc;
  /** An error of this call that concerns the whole cloud. */
  volatile ProviderException cloudFailure;
  private final boolean changesCloud;
  // The controller names a deadline with each call.
  private final Deadline deadline =
      Optional.ofNullable(Context.current().getDeadline()).orElseGet(() -> Deadline.after(1, TimeUnit.HOURS));
  private volatile boolean isGone;
  private Thread thread;

  Call(String rpc, boolean changesCloud, ClusterInfo cluster, String requestId, LoadBalancerIdentity identity) {
    this.rpc = rpc;
    this.changesCloud = changesCloud;
    this.cluster = cluster;
    this.requestId = requestId;
    this.identity = identity;
  }

  /** A call for tests of handlers, whose caller waits for an hour. */
  public static Call about(ClusterInfo cluster) {
    return new Call("", false, cluster, "test", LoadBalancerIdentity.getDefaultInstance());
  }

  /**
   * The UID of the cluster, which tags what this cluster owns.
   *
   * @throws ProviderException INVALID_REQUEST where it is not known
   */
  public String clusterUid() {
    if (cluster.getUid().isEmpty()) {
      throw ProviderException.invalid("the UID of the cluster is not known, so nothing can be tagged with it");
    }
    return cluster.getUid();
  }

  /**
   * To be called before each change of the cloud.
   *
   * @throws CancellationException once the caller no longer waits: it cancelled, its deadline passed, its connection was
   *     lost, or the process is ending
   */
  public void check() {
    if (isGone) {
      throw new CancellationException("the caller no longer waits for this call");
    }
  }

  /** The time until the deadline: the limit of a cloud request of this call. */
  public Duration remaining() {
    return Duration.ofNanos(Math.max(deadline.timeRemaining(TimeUnit.NANOSECONDS), 0));
  }

  /** The thread of the handler from now on; null: it has ended. */
  synchronized void runsIn(Thread handler) {
    thread = handler;
    // A thread is used again: an interrupt was meant for one call.
    Thread.interrupted();
  }

  /** The caller no longer waits: a lookup ends, a change goes on for a while. */
  void leave(ScheduledExecutorService timer) {
    isGone = true;
    if (!changesCloud) {
      interrupt();
    } else if (!timer.isShutdown()) {
      timer.schedule(this::interrupt, CANCEL_GRACE_SECONDS, TimeUnit.SECONDS);
    }
  }

  private synchronized void interrupt() {
    if (thread != null) {
      thread.interrupt();
    }
  }
}
