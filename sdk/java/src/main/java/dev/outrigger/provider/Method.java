package dev.outrigger.provider;

import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Message;
import dev.outrigger.cloudprovider.v1.CallContext;
import dev.outrigger.cloudprovider.v1.InstancesServiceGrpc;
import dev.outrigger.cloudprovider.v1.LoadBalancersServiceGrpc;
import dev.outrigger.cloudprovider.v1.MethodRules;
import dev.outrigger.cloudprovider.v1.NodeSetsServiceGrpc;
import dev.outrigger.cloudprovider.v1.OptionsProto;
import dev.outrigger.cloudprovider.v1.ProviderServiceGrpc;
import dev.outrigger.cloudprovider.v1.RoutesServiceGrpc;
import dev.outrigger.cloudprovider.v1.VolumesServiceGrpc;
import io.grpc.MethodDescriptor;
import io.grpc.MethodDescriptor.PrototypeMarshaller;
import io.grpc.protobuf.ProtoMethodDescriptorSupplier;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * A method of the contract with its rules, which are read from the options of the contract.
 *
 * @param name different in each service
 * @param service the service's full name
 */
record Method(String name, String service, MethodDescriptor<?, ?> wire, Message request, Message response, MethodRules rules) {
  /** The one minor revision of the contract that this package speaks. */
  static final int MINOR = 1;

  /** All methods, by their names. */
  static final Map<String, Method> ALL = Stream.of(
          ProviderServiceGrpc.getServiceDescriptor(), InstancesServiceGrpc.getServiceDescriptor(),
          NodeSetsServiceGrpc.getServiceDescriptor(), LoadBalancersServiceGrpc.getServiceDescriptor(),
          RoutesServiceGrpc.getServiceDescriptor(), VolumesServiceGrpc.getServiceDescriptor())
      .flatMap(service -> service.getMethods().stream()).map(Method::of)
      .collect(Collectors.toUnmodifiableMap(Method::name, Function.identity()));

  private static Method of(MethodDescriptor<?, ?> wire) {
    ProtoMethodDescriptorSupplier schema = (ProtoMethodDescriptorSupplier) wire.getSchemaDescriptor();
    return new Method(wire.getBareMethodName(), wire.getServiceName(), wire,
        prototype(wire.getRequestMarshaller()), prototype(wire.getResponseMarshaller()),
        schema.getMethodDescriptor().getOptions().getExtension(OptionsProto.rules));
  }

  private static Message prototype(MethodDescriptor.Marshaller<?> marshaller) {
    return (Message) ((PrototypeMarshaller<?>) marshaller).getMessagePrototype();
  }

  boolean isUpload() {
    return !wire.getType().clientSendsOneMessage();
  }

  /** The time that a caller waits who names none. */
  Duration deadline(Message sent) {
    Duration time = Statuses.time(rules.getDeadline());
    return rules.getDeadlinePerItem() ? time.multipliedBy(Math.max(items(sent).size(), 1)) : time;
  }

  /** The context of a request; null for a method whose requests have none. */
  CallContext context(Message sent) {
    FieldDescriptor field = sent.getDescriptorForType().findFieldByName("context");
    return field == null ? null : (CallContext) sent.getField(field);
  }

  /** The items of a batch. */
  List<?> items(Message sent) {
    FieldDescriptor field = sent.getDescriptorForType().findFieldByName("items");
    return field == null ? List.of() : (List<?>) sent.getField(field);
  }

  /** The key of an item of a batch. */
  String key(Message item) {
    return (String) item.getField(item.getDescriptorForType().findFieldByName(rules.getItemKey()));
  }
}
