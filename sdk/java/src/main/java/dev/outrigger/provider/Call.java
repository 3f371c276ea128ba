package dev.outrigger.provider;

import java.time.Duration;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;

/** The facts of a call, and whether its caller still waits. */
public final class Call {
  private final Cluster cluster;
  private final String requestId;
  private final String rpc;
  private final String traceparent;
  private final long deadlineNanos;
  private final boolean changesCloud;
  private final int maxSendBytes;
  private final Core core;
  private final Set<Thread> threads = new HashSet<>();
  private volatile boolean gone;
  private int tasks;
  private boolean hasWarned;

  Call(Core core, Cluster cluster, String requestId, Method method, String traceparent, Duration remaining, int maxSendBytes) {
    this.core = core;
    this.cluster = cluster;
    this.requestId = requestId;
    this.rpc = method == null ? "" : method.name();
    this.traceparent = traceparent;
    this.deadlineNanos = System.nanoTime() + remaining.toNanos();
    this.changesCloud = method != null && method.rules().getChangesCloud();
    this.maxSendBytes = maxSendBytes;
  }

  /** A call for tests of handlers, whose caller waits for an hour. */
  public static Call about(Cluster cluster) {
    return new Call(null, cluster, "test", null, "", Duration.ofHours(1), Core.DEFAULT_MESSAGE_BYTES);
  }

  /** The cluster that the call is about: tag with {@code cluster().uid()}. */
  public Cluster cluster() {
    return cluster;
  }

  /** Names this attempt in logs, traces and the cloud's client tokens. It changes with the next attempt. */
  public String requestId() {
    return requestId;
  }

  /** The name of the method. */
  public String rpc() {
    return rpc;
  }

  /** The caller's W3C trace context; may be empty. */
  public String traceparent() {
    return traceparent;
  }

  /**
   * To be called before each change of the cloud.
   *
   * @throws CallerGoneException once the caller no longer waits: it cancelled, its deadline passed, its connection was
   *     lost, or the process is ending
   */
  public void check() {
    if (gone) {
      throw new CallerGoneException();
    }
  }

  /** Whether the caller no longer waits. */
  public boolean isGone() {
    return gone;
  }

  /** The time until the deadline: the limit of a cloud request of this call. */
  public Duration remaining() {
    return Duration.ofNanos(Math.max(deadlineNanos - System.nanoTime(), 0));
  }

  boolean changesCloud() {
    return changesCloud;
  }

  int maxSendBytes() {
    return maxSendBytes;
  }

  /** Runs work in a thread of its own; the call has not ended before it. */
  void fork(Runnable work) {
    synchronized (this) {
      tasks++;
    }
    try {
      core.threads().execute(() -> {
        enter();
        try {
          work.run();
        } finally {
          exit();
        }
      });
    } catch (RuntimeException | Error notBegun) {
      // There is no memory for a thread, or the process is ending.
      synchronized (this) {
        tasks--;
      }
      throw notBegun;
    }
  }

  private synchronized void enter() {
    threads.add(Thread.currentThread());
    Map<String, Object> fields = new LinkedHashMap<>(Map.of("rpc", rpc, "request_id", requestId));
    if (!traceparent.isEmpty()) {
      fields.put("traceparent", traceparent);
    }
    Logs.CALL.set(fields);
    if (gone && !changesCloud) {
      Thread.currentThread().interrupt();
    }
  }

  private void exit() {
    boolean isLast;
    synchronized (this) {
      threads.remove(Thread.currentThread());
      // The thread is used again: an interrupt was meant for this call.
      Thread.interrupted();
      Logs.CALL.remove();
      isLast = --tasks == 0;
    }
    if (isLast) {
      core.ended(this);
    }
  }

  /** The caller no longer waits: a lookup ends, a change goes on for a while. */
  void leave() {
    gone = true;
    if (changesCloud) {
      core.later(Core.CANCEL_GRACE, this::interrupt);
    } else {
      interrupt();
    }
  }

  /** The call was answered: threads of a lookup that still run are of no use. */
  void finish() {
    boolean isLast;
    synchronized (this) {
      if (!changesCloud) {
        gone = true;
        List<Thread> others = threads.stream().filter(thread -> thread != Thread.currentThread()).toList();
        others.forEach(Thread::interrupt);
        if (!others.isEmpty()) {
          core.later(Core.INTERRUPT_GRACE, this::warn);
        }
      }
      isLast = tasks == 0;
    }
    if (isLast) {
      core.ended(this);
    }
  }

  private synchronized void interrupt() {
    threads.forEach(Thread::interrupt);
    core.later(Core.INTERRUPT_GRACE, this::warn);
  }

  /** Once, with the line of the author's code that an interrupt does not end. */
  private synchronized void warn() {
    if (hasWarned || threads.isEmpty()) {
      return;
    }
    hasWarned = true;
    Object line = Stream.of(threads.iterator().next().getStackTrace())
        .filter(frame -> frame.getModuleName() == null).findFirst().map(Object::toString).orElse("");
    Logs.warn("a handler runs on after its caller has gone, and does not end when it is interrupted",
        "rpc", rpc, "request_id", requestId, "at", line);
  }
}
