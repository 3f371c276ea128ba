package dev.outrigger.provider;

import com.google.protobuf.Message;
import io.grpc.HandlerRegistry;
import io.grpc.MethodDescriptor;
import io.grpc.ServerMethodDefinition;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.HashMap;
import java.util.Map;

/** The methods that are served, by their path; each other one is refused in the contract's words. */
final class Rpcs extends HandlerRegistry {
  private static final MethodDescriptor.Marshaller<byte[]> BYTES = new MethodDescriptor.Marshaller<>() {
    @Override
    public InputStream stream(byte[] data) {
      return new ByteArrayInputStream(data);
    }

    @Override
    public byte[] parse(InputStream stream) {
      try {
        return stream.readAllBytes();
      } catch (IOException error) {
        throw new UncheckedIOException(error);
      }
    }
  };

  private final Core core;
  private final NodeSets nodeSets;
  private final Map<String, ServerMethodDefinition<byte[], byte[]>> methods = new HashMap<>();

  Rpcs(Core core, NodeSets nodeSets) {
    this.core = core;
    this.nodeSets = nodeSets;
  }

  /** Serves a method of the contract. */
  <M extends Message> Rpcs serve(String name, Rpc<M> rpc) {
    Method method = Method.ALL.get(name);
    // A request is of the type of its method.
    @SuppressWarnings("unchecked")
    Rpc<Message> any = (Rpc<Message>) rpc;
    methods.put(method.wire().getFullMethodName(), ServerMethodDefinition.create(
        bytes(method.wire().getFullMethodName(), method.wire().getType()),
        (wire, headers) -> new Exchange(core, method, any, nodeSets, wire, headers)));
    return this;
  }

  @Override
  public ServerMethodDefinition<?, ?> lookupMethod(String path, String authority) {
    ServerMethodDefinition<byte[], byte[]> method = methods.get(path);
    return method != null ? method : ServerMethodDefinition.create(
        bytes(path, MethodDescriptor.MethodType.BIDI_STREAMING), (wire, headers) -> Exchange.refuse(wire));
  }

  private static MethodDescriptor<byte[], byte[]> bytes(String path, MethodDescriptor.MethodType type) {
    return MethodDescriptor.<byte[], byte[]>newBuilder()
        .setFullMethodName(path).setType(type).setRequestMarshaller(BYTES).setResponseMarshaller(BYTES).build();
  }
}
