package dev.outrigger.provider;

import com.google.protobuf.Message;
import io.grpc.MethodDescriptor;
import io.grpc.MethodDescriptor.PrototypeMarshaller;
import io.grpc.ServerServiceDefinition;
import io.grpc.stub.ServerCalls;
import java.util.stream.Stream;

/** The methods of a service, each with the code that answers it. */
final class Methods {
  private final Core core;
  private final ServerServiceDefinition.Builder service;

  /** The code of a method. */
  @FunctionalInterface
  interface Work<Q, A> {
    /** The answer; the call is null in a method without a context. */
    A on(Call call, Q request) throws Exception;
  }

  Methods(Core core, String name) {
    this.core = core;
    this.service = ServerServiceDefinition.builder(name);
  }

  /** A method with one answer. */
  <Q extends Message, A extends Message> Methods unary(MethodDescriptor<Q, A> method, Work<Q, A> work) {
    service.addMethod(method, ServerCalls.asyncUnaryCall((request, caller) -> core.run(method, request, caller, call -> {
      caller.onNext(work.on(call, request));
    })));
    return this;
  }

  /** A list. */
  <Q extends Message, A extends Message> Methods list(MethodDescriptor<Q, A> method, Work<Q, Stream<? extends Message>> work) {
    Message page = (Message) ((PrototypeMarshaller<A>) method.getResponseMarshaller()).getMessagePrototype();
    service.addMethod(method, ServerCalls.asyncServerStreamingCall((request, caller) -> core.run(method, request, caller,
        call -> Pages.send(call, page, work.on(call, request), caller))));
    return this;
  }

  ServerServiceDefinition build() {
    return service.build();
  }
}
