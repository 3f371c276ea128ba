package dev.outrigger.provider;

import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Message;
import dev.outrigger.cloudprovider.v1.SyncNodeSetRequest;
import io.grpc.Context;
import io.grpc.Deadline;
import io.grpc.Metadata;
import io.grpc.ServerCall;
import io.grpc.Status;
import io.grpc.protobuf.StatusProto;
import java.time.Duration;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;

/** One exchange on the wire: reads the request, runs its method, and puts errors into the contract's words. */
final class Exchange extends ServerCall.Listener<byte[]> {
  private static final Metadata.Key<String> TRACEPARENT = Metadata.Key.of("traceparent", Metadata.ASCII_STRING_MARSHALLER);
  // W3C's form is 55 characters; a later version may be longer, but not endless.
  private static final int MOST_TRACEPARENT = 128;

  private final Core core;
  private final Method method;
  private final Rpc<Message> rpc;
  private final NodeSets nodeSets;
  private final ServerCall<byte[], byte[]> wire;
  private final Metadata headers;
  private final Deadline deadline = Context.current().getDeadline();
  private Message request;
  private NodeSets.Upload upload;
  private Call call;
  private ScheduledFuture<?> timer;
  private boolean hasHeaders;
  private boolean isClosed;

  /**
   * An exchange that has begun.
   *
   * @param nodeSets takes the messages of an upload
   */
  Exchange(Core core, Method method, Rpc<Message> rpc, NodeSets nodeSets, ServerCall<byte[], byte[]> wire, Metadata headers) {
    this.core = core;
    this.method = method;
    this.rpc = rpc;
    this.nodeSets = nodeSets;
    this.wire = wire;
    this.headers = headers;
    wire.request(method.isUpload() ? 1 : 2);
  }

  @Override
  public void onMessage(byte[] data) {
    try {
      request = read(data);
      if (method.isUpload()) {
        takePart((SyncNodeSetRequest) request);
        wire.request(1);
      }
    } catch (RuntimeException error) {
      fail(error);
    }
  }

  @Override
  public void onHalfClose() {
    if (isClosed()) {
      return;
    }
    try {
      if (method.isUpload()) {
        throw new ProviderException(Reason.INVALID_REQUEST, upload == null
            ? "the upload does not start with begin" : "the upload ended without commit; nothing was applied");
      }
      if (request == null) {
        throw new ProviderException(Reason.INVALID_REQUEST, "the call has no request");
      }
      if (method.context(request) == null) {
        core.refuseWhenStopping();
        run();
        return;
      }
      admit(request);
      call.fork(this::run);
    } catch (RuntimeException | Error error) {
      // Without memory for a thread, too, the caller must get an answer.
      fail(error);
    }
  }

  @Override
  public void onReady() {
    synchronized (this) {
      notifyAll();
    }
  }

  @Override
  public void onCancel() {
    leave();
  }

  private void takePart(SyncNodeSetRequest part) {
    if (isClosed()) {
      return;
    }
    if (upload == null) {
      if (!part.hasBegin()) {
        throw new ProviderException(Reason.INVALID_REQUEST, "the upload does not start with begin");
      }
      admit(part.getBegin());
      upload = nodeSets.begin(part.getBegin());
      return;
    }
    Message answer = upload.take(part);
    if (answer != null) {
      send(answer);
      close(Status.OK, new Metadata());
    }
  }

  private void admit(Message sent) {
    Duration remaining =
        deadline == null ? null : Duration.ofNanos(Math.max(deadline.timeRemaining(TimeUnit.NANOSECONDS), 0));
    String trace = headers.get(TRACEPARENT);
    call = core.admit(method, sent, method.context(sent), remaining,
        trace == null || trace.length() > MOST_TRACEPARENT ? "" : trace);
    timer = core.later(call.remaining(), () -> {
      leave();
      fail(new Statuses.NotAnsweredException("the deadline of the call passed before its answer"));
    });
  }

  private void run() {
    try {
      rpc.serve(call, request, this::send);
      close(Status.OK, new Metadata());
    } catch (InterruptedException error) {
      fail(call != null && call.isGone() ? new CallerGoneException() : error);
    } catch (Throwable error) {
      // An Error of the author's code too: the caller must get an answer.
      if (call != null && call.isGone() && !(error instanceof CallerGoneException)) {
        Logs.error("a call failed after its caller had gone", error);
      }
      fail(error);
    }
  }

  private Message read(byte[] data) {
    int most = core.provider().maxMessageBytes;
    if (data.length > most) {
      throw new ProviderException(Reason.INVALID_REQUEST, "the request has " + data.length + " bytes, and is larger than the "
          + most + " that this provider accepts (HandshakeResponse.max_receive_message_bytes)");
    }
    try {
      return method.request().getParserForType().parseFrom(data);
    } catch (InvalidProtocolBufferException error) {
      String name = method.request().getDescriptorForType().getName();
      throw new ProviderException(Reason.INVALID_REQUEST, "the request is no " + name, error);
    }
  }

  /** Sends a message of the answer, once the caller reads. */
  private void send(Message message) {
    byte[] data = message.toByteArray();
    if (call != null && data.length > call.maxSendBytes()) {
      throw new IllegalStateException("the answer has " + data.length + " bytes, more than the " + call.maxSendBytes()
          + " that the controller accepts; lower max_batch_size of the capability");
    }
    synchronized (this) {
      while (!isClosed && !wire.isCancelled() && hasHeaders && !wire.isReady()) {
        try {
          wait();
        } catch (InterruptedException error) {
          Thread.currentThread().interrupt();
          throw new CallerGoneException();
        }
      }
      if (isClosed || wire.isCancelled()) {
        throw new CallerGoneException();
      }
      if (!hasHeaders) {
        hasHeaders = true;
        wire.sendHeaders(new Metadata());
      }
      wire.sendMessage(data);
    }
  }

  private void fail(Throwable error) {
    String requestId = call == null ? "" : call.requestId();
    com.google.rpc.Status status;
    if (error instanceof ProviderException deliberate) {
      status = deliberate.callStatus();
      Logs.info("call failed", "rpc", method.name(), "request_id", requestId,
          "reason", deliberate.reason(), "error", Statuses.cut(deliberate.getMessage()));
    } else {
      status = Statuses.of(error, requestId);
    }
    close(status);
  }

  private void close(com.google.rpc.Status status) {
    Status plain = Status.fromCodeValue(status.getCode()).withDescription(status.getMessage());
    Metadata trailers =
        status.getDetailsCount() == 0 ? new Metadata() : StatusProto.toStatusException(status).getTrailers();
    close(plain, trailers);
  }

  /** A call of a method that is not served. */
  static ServerCall.Listener<byte[]> refuse(ServerCall<byte[], byte[]> wire) {
    com.google.rpc.Status status = new ProviderException(
        Reason.CAPABILITY_DISABLED, "this provider does not serve the method that was called").callStatus();
    wire.close(Status.fromCodeValue(status.getCode()).withDescription(status.getMessage()),
        StatusProto.toStatusException(status).getTrailers());
    return new ServerCall.Listener<>() {};
  }

  private void close(Status status, Metadata trailers) {
    synchronized (this) {
      if (isClosed) {
        return;
      }
      isClosed = true;
      notifyAll();
      if (!wire.isCancelled()) {
        wire.close(status, trailers);
      }
    }
    ended();
  }

  private synchronized boolean isClosed() {
    return isClosed;
  }

  private void leave() {
    synchronized (this) {
      isClosed |= wire.isCancelled();
      notifyAll();
    }
    if (call != null) {
      call.leave();
    }
    ended();
  }

  private void ended() {
    if (timer != null) {
      timer.cancel(false);
    }
    if (call != null) {
      call.finish();
    }
  }
}
