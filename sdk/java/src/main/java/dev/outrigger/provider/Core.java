package dev.outrigger.provider;

import com.google.protobuf.Message;
import dev.outrigger.cloudprovider.v1.CallContext;
import dev.outrigger.cloudprovider.v1.Capabilities;
import dev.outrigger.cloudprovider.v1.ClusterInfo;
import java.time.Duration;
import java.util.HashSet;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;

/** Admits calls, and knows those that run: the state that the services of one server share. */
final class Core {
  static final int DEFAULT_MESSAGE_BYTES = 4 << 20;
  /** How long a handler of a change may run on after its caller has gone. */
  static final Duration CANCEL_GRACE = Duration.ofSeconds(30);
  /** How long an interrupt may take to end a handler. */
  static final Duration INTERRUPT_GRACE = Duration.ofSeconds(1);
  /** An author who tags with the cluster's UID could not tell the resources of one without from another cluster's. */
  private static final Set<String> TAGGED =
      Set.of("cloudprovider.v1.LoadBalancersService", "cloudprovider.v1.RoutesService");

  private final Provider provider;
  private final Capabilities offered;
  private final String bootId = UUID.randomUUID().toString();
  // A thread for each running handler: the controller's limits bound them, and a handler that hangs holds up no other.
  private final ExecutorService threads = Executors.newCachedThreadPool(Core::daemon);
  private final ScheduledExecutorService timer = Executors.newSingleThreadScheduledExecutor(Core::daemon);
  private final Set<Call> calls = new HashSet<>();
  private volatile Session session;
  private volatile boolean stopping;

  /** The latest handshake. */
  private record Session(Cluster cluster, int maxSendBytes) {}

  Core(Provider provider) {
    this.provider = provider;
    this.offered = provider.capabilities();
  }

  private static Thread daemon(Runnable work) {
    Thread thread = new Thread(work, "provider");
    thread.setDaemon(true);
    return thread;
  }

  Provider provider() {
    return provider;
  }

  Capabilities offered() {
    return offered;
  }

  String bootId() {
    return bootId;
  }

  ExecutorService threads() {
    return threads;
  }

  boolean isStopping() {
    return stopping;
  }

  void stop() {
    stopping = true;
  }

  ScheduledFuture<?> later(Duration delay, Runnable work) {
    try {
      return timer.schedule(work, delay.toNanos(), TimeUnit.NANOSECONDS);
    } catch (RejectedExecutionException ended) {
      return null;
    }
  }

  void shutdown() {
    threads.shutdownNow();
    timer.shutdownNow();
  }

  /** Takes the cluster of a handshake. */
  synchronized void shakeHands(ClusterInfo sent, long maxReceiveBytes) {
    Cluster cluster =
        new Cluster(sent.getName(), sent.getUid(), sent.getPodCidrsList(), sent.getServiceCidrsList());
    if (session != null && cluster.uid().isEmpty() && cluster.name().equals(session.cluster.name())) {
      // The caller has fewer rights, which must not make existing resources another cluster's.
      cluster = cluster.withUid(session.cluster.uid());
    }
    // Unsigned on the wire: above 2 GiB, or negative here, it limits nothing.
    boolean isLarge = maxReceiveBytes < 0 || maxReceiveBytes > Integer.MAX_VALUE;
    int limit = isLarge ? Integer.MAX_VALUE : (int) maxReceiveBytes;
    session = new Session(cluster, limit == 0 ? DEFAULT_MESSAGE_BYTES : limit);
  }

  /** No call begins once the process is ending. */
  void refuseWhenStopping() {
    if (stopping) {
      throw new ProviderException(Reason.SHUTTING_DOWN, "this provider is ending; connect again");
    }
  }

  /**
   * The facts of a call that may run.
   *
   * @param remaining null where the caller named no time
   */
  Call admit(Method method, Message request, CallContext sent, Duration remaining, String traceparent) {
    refuseWhenStopping();
    Session current = session;
    if (current == null) {
      throw new ProviderException(
          Reason.NOT_HANDSHAKED, "no handshake since this provider process started; call Handshake first");
    }
    Cluster cluster = current.cluster;
    if (!cluster.name().equals(sent.getClusterName())) {
      throw new ProviderException(Reason.NOT_HANDSHAKED, "the call is about cluster \"" + sent.getClusterName()
          + "\", the latest handshake about \"" + cluster.name() + "\"; call Handshake first");
    }
    if (!sent.getClusterUid().isEmpty()) {
      cluster = cluster.withUid(sent.getClusterUid());
    }
    if (cluster.uid().isEmpty() && !provider.withoutClusterId && TAGGED.contains(method.service())) {
      throw new ProviderException(Reason.INVALID_REQUEST,
          "the cluster has no UID, so that its resources cannot be told from another cluster's");
    }
    Duration time = remaining == null ? method.deadline(request) : remaining;
    Call call = new Call(this, cluster, sent.getRequestId(), method, traceparent, time, current.maxSendBytes);
    synchronized (calls) {
      calls.add(call);
    }
    return call;
  }

  /** Forgets a call, whose threads have ended. */
  void ended(Call call) {
    synchronized (calls) {
      calls.remove(call);
      calls.notifyAll();
    }
  }

  /** The callers of all calls count as gone. */
  void leaveAll() {
    Set<Call> all;
    synchronized (calls) {
      all = Set.copyOf(calls);
    }
    all.forEach(Call::leave);
  }

  /** Waits until no call runs, at most so long; answers how many do. */
  int awaitCalls(Duration patience) throws InterruptedException {
    long until = System.nanoTime() + patience.toNanos();
    synchronized (calls) {
      while (!calls.isEmpty()) {
        long left = until - System.nanoTime();
        if (left <= 0) {
          break;
        }
        TimeUnit.NANOSECONDS.timedWait(calls, Math.max(left, 1_000_000));
      }
      return calls.size();
    }
  }
}
