package dev.outrigger.provider;

import com.google.gson.Gson;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.protobuf.Message;
import com.google.protobuf.util.JsonFormat;
import com.google.rpc.ErrorInfo;
import com.google.rpc.Status;
import dev.outrigger.cloudprovider.v1.BatchGetInstancesRequest;
import dev.outrigger.cloudprovider.v1.InstanceResult;
import dev.outrigger.cloudprovider.v1.LoadBalancerAnswer;
import dev.outrigger.cloudprovider.v1.Node;
import dev.outrigger.cloudprovider.v1.Service;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.Assertions;

/** Services, requests and vectors of the tests. */
final class Fixtures {
  private Fixtures() {}

  /** A lookup that is written as a lambda. */
  @FunctionalInterface
  interface LookUp extends Instances {
    InstanceResult on(Call call, Node node) throws Exception;

    @Override
    default InstanceResult getInstance(Call call, Node node, Query query) throws Exception {
      return on(call, node);
    }
  }

  /** A change of a Service that is written as a lambda; Get and Delete find nothing. */
  @FunctionalInterface
  interface Change extends LoadBalancers {
    LoadBalancerAnswer make(Call call, Service service, Targets targets) throws Exception;

    @Override
    default LoadBalancerAnswer ensureLoadBalancer(Call call, Service service, Targets targets) throws Exception {
      return make(call, service, targets);
    }

    @Override
    default LoadBalancerAnswer updateLoadBalancerNodes(Call call, Service service, Targets targets) throws Exception {
      return make(call, service, targets);
    }

    @Override
    default LoadBalancerAnswer getLoadBalancer(Call call, Service service, Optional<Targets> targets) {
      return Answers.ABSENT;
    }

    @Override
    default LoadBalancerAnswer deleteLoadBalancer(Call call, Service service) {
      return Answers.ABSENT;
    }
  }

  static Provider provider() {
    return Provider.named("test", "0.1.0");
  }

  static Node node(String name) {
    return Node.newBuilder().setName(name).build();
  }

  static BatchGetInstancesRequest lookup(String... names) {
    return BatchGetInstancesRequest.newBuilder().setContext(Served.CONTEXT)
        .addAllItems(List.of(names).stream().map(Fixtures::node).toList()).build();
  }

  static void await(BooleanSupplier state) throws InterruptedException {
    long until = System.nanoTime() + Duration.ofSeconds(20).toNanos();
    while (!state.getAsBoolean()) {
      Assertions.assertTrue(System.nanoTime() < until, "the state has not come within 20 s");
      Thread.sleep(5);
    }
  }

  /** The status of a call that fails. */
  static Status refusal(org.junit.jupiter.api.function.Executable call) {
    return StatusProto.fromThrowable(Assertions.assertThrows(StatusRuntimeException.class, call));
  }

  static String reason(Status status) {
    return status.getDetailsList().stream().filter(detail -> detail.is(ErrorInfo.class)).map(detail -> {
      try {
        return detail.unpack(ErrorInfo.class).getReason();
      } catch (com.google.protobuf.InvalidProtocolBufferException error) {
        throw new AssertionError(error);
      }
    }).findFirst().orElse("");
  }

  /** The cases of a file of {@code sdk/vectors}. */
  static List<JsonObject> vectors(String file) {
    try {
      JsonArray cases = new Gson().fromJson(Files.readString(Path.of("../vectors", file + ".json")), JsonArray.class);
      return cases.asList().stream().map(JsonElement::getAsJsonObject).toList();
    } catch (IOException error) {
      throw new AssertionError("sdk/vectors is beside sdk/java", error);
    }
  }

  /** A message in proto3 JSON. */
  @SuppressWarnings("unchecked")
  static <M extends Message> M message(JsonElement json, M prototype) {
    try {
      Message.Builder builder = prototype.newBuilderForType();
      JsonFormat.parser().merge(json.toString(), builder);
      return (M) builder.build();
    } catch (com.google.protobuf.InvalidProtocolBufferException error) {
      throw new AssertionError("the vector is no " + prototype.getDescriptorForType().getName(), error);
    }
  }
}
