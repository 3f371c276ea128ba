package dev.outrigger.provider;

import static dev.outrigger.provider.Fixtures.await;
import static dev.outrigger.provider.Fixtures.message;
import static dev.outrigger.provider.Fixtures.provider;
import static dev.outrigger.provider.Fixtures.reason;
import static dev.outrigger.provider.Fixtures.refusal;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.rpc.Status;
import dev.outrigger.cloudprovider.v1.*;
import io.grpc.stub.StreamObserver;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** The vectors that the SDKs of all languages share. */
class VectorsTest {
  @TestFactory
  Stream<DynamicTest> nodeSets() {
    return Fixtures.vectors("node_sets").stream().map(vector -> dynamicTest(name(vector), () -> {
      List<Targets> resolved = new CopyOnWriteArrayList<>();
      Fixtures.Change change = (call, service, targets) -> {
        resolved.add(targets);
        return Answers.ready("192.0.2.1");
      };
      try (Served served = Served.of(provider().loadBalancers(change))) {
        for (JsonObject step : steps(vector)) {
          if (step.has("upload")) {
            if (step.has("reason")) {
              assertEquals(text(step, "reason"), reason(refusal(() -> sync(served, step))));
            } else {
              assertEquals(text(step, "revision"), sync(served, step).getRevision());
            }
            continue;
          }
          EnsureLoadBalancerRequest request = EnsureLoadBalancerRequest.newBuilder().setContext(Served.CONTEXT)
              .setService(Service.newBuilder().setUid("s"))
              .setTargets(message(step.get("targets"), NodeTargets.getDefaultInstance())).build();
          if (step.has("reason")) {
            assertEquals(text(step, "reason"), reason(refusal(() -> served.loadBalancers().ensureLoadBalancer(request))));
            continue;
          }
          served.loadBalancers().ensureLoadBalancer(request);
          List<Node> nodes = step.getAsJsonArray("nodes").asList().stream()
              .map(json -> message(json, Node.getDefaultInstance())).toList();
          assertEquals(new Targets(nodes, "").nodes(), resolved.get(resolved.size() - 1).nodes());
        }
      }
    }));
  }

  private static SyncNodeSetResponse sync(Served served, JsonObject step) {
    CompletableFuture<SyncNodeSetResponse> answer = new CompletableFuture<>();
    StreamObserver<SyncNodeSetRequest> parts =
        NodeSetsServiceGrpc.newStub(served.channel()).syncNodeSet(new StreamObserver<>() {
          @Override
          public void onNext(SyncNodeSetResponse response) {
            answer.complete(response);
          }

          @Override
          public void onError(Throwable error) {
            answer.completeExceptionally(error);
          }

          @Override
          public void onCompleted() {}
        });
    CallContext context = Served.CONTEXT;
    for (JsonElement json : step.getAsJsonArray("upload")) {
      parts.onNext(message(json, SyncNodeSetRequest.getDefaultInstance()).toBuilder().setContext(context).build());
      context = CallContext.getDefaultInstance();
    }
    parts.onCompleted();
    try {
      return answer.join();
    } catch (CompletionException error) {
      throw (RuntimeException) error.getCause();
    }
  }

  @TestFactory
  Stream<DynamicTest> errors() {
    return Fixtures.vectors("errors").stream().map(row -> dynamicTest(name(row) + ": " + text(row, "reason"), () -> {
      ProviderException plain = new ProviderException(ErrorReason.valueOf("ERROR_REASON_" + text(row, "reason")), text(row, "message"));
      ProviderException timed = row.has("retryAfter")
          ? plain.retryAfter(Duration.ofNanos(Math.round(row.get("retryAfter").getAsDouble() * 1e9))) : plain;
      ProviderException error = row.has("effects")
          ? timed.effects(message(row.get("effects"), KubernetesEffects.getDefaultInstance())) : timed;
      // An exception of getInstances, and not of getInstance, is that of the whole call.
      Instances instances = new Instances() {
        @Override
        public Map<String, InstanceResult> getInstances(Call call, List<Node> nodes, Query query) {
          throw error;
        }
      };
      try (Served served = Served.of(provider().instances(instances))) {
        Status sent = refusal(() -> served.instances().batchGetInstances(Fixtures.lookup("a")));
        assertEquals(Status.parseFrom(Base64.getDecoder().decode(text(row, "status"))), sent);
      }
    }));
  }

  @TestFactory
  Stream<DynamicTest> handshakesAndContexts() {
    return Stream.of("handshake", "context").flatMap(file -> Fixtures.vectors(file).stream())
        .map(vector -> dynamicTest(name(vector), () -> handshakesAndContexts(vector)));
  }

  private static void handshakesAndContexts(JsonObject vector) throws Exception {
    List<Call> calls = new CopyOnWriteArrayList<>();
    CountDownLatch released = new CountDownLatch(1);
    Fixtures.LookUp lookUp = (call, node) -> {
      calls.add(call);
      if (node.getName().equals("waits")) {
        released.await();
      }
      return Lookup.notVisibleYet("");
    };
    List<CompletableFuture<Void>> under = new ArrayList<>();
    Served served = Served.withoutHandshake(provider().instances(lookUp));
    try {
      for (JsonObject step : steps(vector)) {
        if (step.has("drain")) {
          CallContext context = CallContext.newBuilder().setClusterName("prod").build();
          under.add(CompletableFuture.runAsync(() -> served.instances().batchGetInstances(
              BatchGetInstancesRequest.newBuilder().setContext(context).addItems(Fixtures.node("waits")).build())));
          await(() -> !calls.isEmpty());
          Thread ending = new Thread(served::end);
          ending.start();
          await(() -> ending.getState() == Thread.State.TIMED_WAITING);
        } else if (step.has("handshake")) {
          HandshakeRequest request = message(step.get("handshake"), HandshakeRequest.getDefaultInstance());
          if (step.has("reason")) {
            assertEquals(text(step, "reason"), reason(refusal(() -> served.provider().handshake(request))));
          } else {
            assertEquals(step.get("minor").getAsInt(), served.provider().handshake(request).getMinor());
          }
        } else {
          BatchGetInstancesRequest.Builder request = BatchGetInstancesRequest.newBuilder().addItems(Fixtures.node("a"));
          if (!step.get("call").isJsonNull()) {
            request.setContext(message(step.get("call"), CallContext.getDefaultInstance()));
          }
          if (step.has("reason")) {
            assertEquals(text(step, "reason"), reason(refusal(() -> served.instances().batchGetInstances(request.build()))));
            continue;
          }
          served.instances().batchGetInstances(request.build());
          assertEquals(message(step.get("cluster"), ClusterInfo.getDefaultInstance()), calls.get(calls.size() - 1).cluster);
        }
      }
    } finally {
      released.countDown();
      under.forEach(CompletableFuture::join);
      served.close();
    }
  }

  private static List<JsonObject> steps(JsonObject vector) {
    return vector.getAsJsonArray("steps").asList().stream().map(JsonElement::getAsJsonObject).toList();
  }

  private static String name(JsonObject vector) {
    return text(vector, "case");
  }

  private static String text(JsonObject object, String field) {
    return object.has(field) ? object.get(field).getAsString() : "";
  }
}
