package dev.outrigger.provider;

import com.google.protobuf.Any;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Message;
import com.google.protobuf.Timestamp;
import com.google.rpc.Status;
import dev.outrigger.cloudprovider.v1.*;
import io.grpc.Context;
import io.grpc.MethodDescriptor;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.ProtoMethodDescriptorSupplier;
import io.grpc.protobuf.StatusProto;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.*;

/** Admits calls, runs their handlers, and knows those that run: the state that the services of one server share. */
final class Core {
  // A thread for each running handler: the controller's limits bound them, and a handler that hangs holds up no other.
  final ExecutorService threads = Executors.newCachedThreadPool(Core::daemon);
  final ScheduledExecutorService timer = Executors.newSingleThreadScheduledExecutor(Core::daemon);
  /** Calls that arrive from now on are refused. */
  volatile boolean isStopping;
  /** READY, or DEGRADED after a call that the cloud as a whole has failed. Never BROKEN: a restart mends no cloud. */
  volatile GetStatusResponse status = GetStatusResponse.newBuilder().setReadiness(Readiness.READINESS_READY).build();
  private volatile Timestamp lastSuccess;
  private final Set<Call> calls = new HashSet<>();
  /** The cluster of the latest handshake. */
  private volatile ClusterInfo latestCluster;

  /** The work of a handler, which sends its answer itself. */
  @FunctionalInterface
  interface Work {
    void on(Call call) throws Exception;
  }

  static Thread daemon(Runnable work) {
    Thread thread = new Thread(work, "provider");
    thread.setDaemon(true);
    return thread;
  }

  /** Takes the cluster of a handshake. */
  synchronized void shakeHands(ClusterInfo sent) {
    boolean isSameCluster = latestCluster != null && sent.getName().equals(latestCluster.getName());
    // A caller with fewer rights must not make existing resources another cluster's.
    String uid = sent.getUid().isEmpty() && isSameCluster ? latestCluster.getUid() : sent.getUid();
    latestCluster = sent.toBuilder().setUid(uid).build();
  }

  private void refuseWhenStopping() {
    if (isStopping) {
      throw new ProviderException(ErrorReason.ERROR_REASON_SHUTTING_DOWN, "this provider is ending; connect again");
    }
  }

  /** A call that may run; it does until {@link #end}. */
  Call begin(String rpc, boolean changesCloud, CallContext sent, LoadBalancerIdentity identity) {
    refuseWhenStopping();
    ClusterInfo latest = latestCluster;
    if (latest == null || !latest.getName().equals(sent.getClusterName())) {
      throw new ProviderException(ErrorReason.ERROR_REASON_NOT_HANDSHAKED, latest == null
          ? "no handshake since this provider process started; call Handshake first"
          : "the call is about cluster \"" + sent.getClusterName() + "\", the latest handshake about \""
              + latest.getName() + "\"; call Handshake first");
    }
    ClusterInfo cluster = sent.getClusterUid().isEmpty()
        ? latest : latest.toBuilder().setUid(sent.getClusterUid()).build();
    Call call = new Call(rpc, changesCloud, cluster, sent.getRequestId(), identity);
    synchronized (calls) {
      calls.add(call);
    }
    return call;
  }

  /** The call runs no longer. */
  void end(Call call) {
    note(call.cloudFailure);
    synchronized (calls) {
      calls.remove(call);
      calls.notifyAll();
    }
  }

  private void note(ProviderException failure) {
    if (failure == null) {
      lastSuccess = Timestamp.newBuilder().setSeconds(System.currentTimeMillis() / 1000).build();
      status = GetStatusResponse.newBuilder().setReadiness(Readiness.READINESS_READY).build();
      return;
    }
    DependencyStatus.Builder cloud =
        DependencyStatus.newBuilder().setName("cloud").setReadiness(Readiness.READINESS_DEGRADED).setMessage(failure.getMessage());
    if (lastSuccess != null) {
      cloud.setLastSuccess(lastSuccess);
    }
    status = GetStatusResponse.newBuilder().setReadiness(Readiness.READINESS_DEGRADED).addDependencies(cloud).build();
  }

  /** Answers a call; work without a context has none. */
  <Q extends Message, A> void run(MethodDescriptor<Q, A> method, Q request, StreamObserver<A> caller, Work work) {
    // An answer to a caller that has gone would throw without it.
    ((ServerCallStreamObserver<A>) caller).setOnCancelHandler(() -> {});
    CallContext context = fieldOf(request, "context", CallContext.getDefaultInstance());
    try {
      refuseWhenStopping();
      if (request.getDescriptorForType().findFieldByName("context") == null) {
        work.on(null);
      } else {
        ProtoMethodDescriptorSupplier schema = (ProtoMethodDescriptorSupplier) method.getSchemaDescriptor();
        boolean changesCloud = schema.getMethodDescriptor().getOptions().getExtension(OptionsProto.rules).getChangesCloud();
        during(begin(method.getBareMethodName(), changesCloud, context,
            fieldOf(request, "identity", LoadBalancerIdentity.getDefaultInstance())), work);
      }
      caller.onCompleted();
    } catch (Throwable error) {
      // An Error of the author's code too: the caller must get an answer.
      caller.onError(thrown(error, method.getBareMethodName(), context.getRequestId()));
    }
  }

  @SuppressWarnings("unchecked")
  private static <T> T fieldOf(Message request, String name, T otherwise) {
    FieldDescriptor field = request.getDescriptorForType().findFieldByName(name);
    return field == null ? otherwise : (T) request.getField(field);
  }

  /** The error of a call, for gRPC. */
  static StatusRuntimeException thrown(Throwable error, String rpc, String requestId) {
    Status status = ProviderException.statusOf(error, requestId);
    Logs.info("call failed", "rpc", rpc, "request_id", requestId, "error", status.getMessage());
    return StatusProto.toStatusRuntimeException(error instanceof ProviderException deliberate && deliberate.effects != null
        ? status.toBuilder().addDetails(Any.pack(deliberate.effects)).build() : status);
  }

  private void during(Call call, Work work) throws Exception {
    Context context = Context.current().withValue(Call.CURRENT, call);
    Context.CancellationListener gone = cancelled -> call.leave(timer);
    call.runsIn(Thread.currentThread());
    context.addListener(gone, Runnable::run);
    try {
      context.call(() -> {
        work.on(call);
        return null;
      });
    } catch (ProviderException error) {
      call.cloudFailure = error.stopsTheClass() ? error : null;
      throw error;
    } finally {
      context.removeListener(gone);
      call.runsIn(null);
      end(call);
    }
  }

  /** Waits for running calls: {@code patience} to end by themselves, {@code grace} more once their callers count as gone. */
  void drain(Duration patience, Duration grace) throws InterruptedException {
    isStopping = true;
    synchronized (calls) {
      for (Duration time : List.of(patience, grace)) {
        long until = System.nanoTime() + time.toNanos();
        for (long left = time.toMillis(); !calls.isEmpty() && left > 0; left = (until - System.nanoTime()) / 1_000_000) {
          calls.wait(left);
        }
        calls.forEach(call -> call.leave(timer));
      }
      if (!calls.isEmpty()) {
        Logs.info("calls still run and are dropped", "running", calls.size());
      }
    }
  }
}
