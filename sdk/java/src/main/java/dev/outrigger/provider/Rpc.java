package dev.outrigger.provider;

import com.google.protobuf.Message;

/** Serves one method, in a thread of its own where requests have a context. */
@FunctionalInterface
interface Rpc<M extends Message> {
  /** Takes the messages of the answer: one, or those of a stream. */
  @FunctionalInterface
  interface Sink {
    /**
     * Waits while the caller does not read.
     *
     * @throws CallerGoneException if it no longer waits for more
     */
    void send(Message message) throws InterruptedException;
  }

  /** Answers a request; {@code call} is null where requests have no context. */
  void serve(Call call, M request, Sink sink) throws Exception;

  /** A method that answers with one message. */
  @FunctionalInterface
  interface Unary<M extends Message> {
    /** The answer. */
    Message serve(Call call, M request) throws Exception;
  }

  /** Answers once. */
  static <M extends Message> Rpc<M> unary(Unary<M> method) {
    return (call, request, sink) -> sink.send(method.serve(call, request));
  }
}
