package dev.outrigger.provider;

import static dev.outrigger.provider.Fixtures.await;
import static dev.outrigger.provider.Fixtures.lookup;
import static dev.outrigger.provider.Fixtures.provider;
import static dev.outrigger.provider.Fixtures.reason;
import static dev.outrigger.provider.Fixtures.refusal;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.rpc.Code;
import com.google.rpc.Status;
import dev.outrigger.cloudprovider.v1.*;
import io.grpc.health.v1.HealthCheckRequest;
import io.grpc.health.v1.HealthCheckResponse.ServingStatus;
import io.grpc.health.v1.HealthGrpc;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Calls as the controller makes them, of providers whose authors do odd things. */
@Timeout(60)
class CallsTest {
  private static Map<String, InstanceResult> results(BatchGetInstancesResponse response) {
    Map<String, InstanceResult> results = new HashMap<>();
    response.getResultsList().forEach(result -> results.put(result.getKey(), result));
    return results;
  }

  private static InstanceResult found(String name) {
    return Lookup.found(Instance.newBuilder().setProviderId("test://" + name).build());
  }

  private static boolean isGone(Call call) {
    try {
      call.check();
      return false;
    } catch (CancellationException gone) {
      return true;
    }
  }

  private static EnsureLoadBalancerRequest ensure(String uid) {
    return EnsureLoadBalancerRequest.newBuilder().setContext(Served.CONTEXT).setService(Service.newBuilder().setUid(uid))
        .setTargets(NodeTargets.newBuilder().setInline(InlineNodes.getDefaultInstance())).build();
  }

  @Test
  void aNodeHasTheAnswerOfItsHandler() throws Exception {
    KubernetesEffects effects = KubernetesEffects.newBuilder().addRemoveAnnotations("example.com/a").build();
    Fixtures.LookUp lookUp = (call, node) -> switch (node.getName()) {
      case "there" -> found("there").toBuilder().setEffects(effects).build();
      case "gone" -> Lookup.absent();
      case "cached" -> Lookup.notVisibleYet("a cache");
      case "foreign" -> Lookup.notManaged("another cloud's");
      case "refused" -> throw new ProviderException(ErrorReason.ERROR_REASON_MALFORMED_PROVIDER_ID, "no ID").effects(effects);
      default -> throw new java.io.IOException("a secret");
    };
    try (Served served = Served.of(provider().instances(lookUp))) {
      Map<String, InstanceResult> results = results(served.instances().batchGetInstances(
          lookup("there", "gone", "cached", "foreign", "refused", "throws")));
      assertEquals("test://there", results.get("there").getFound().getProviderId());
      assertEquals(effects, results.get("there").getEffects());
      assertEquals(AbsenceCertainty.ABSENCE_CERTAINTY_CONFIRMED, results.get("gone").getAbsent().getCertainty());
      assertEquals(AbsenceCertainty.ABSENCE_CERTAINTY_NOT_VISIBLE_YET, results.get("cached").getAbsent().getCertainty());
      assertEquals("another cloud's", results.get("foreign").getNotManaged().getReason());
      assertEquals("MALFORMED_PROVIDER_ID", reason(results.get("refused").getError()));
      assertEquals(effects, results.get("refused").getEffects());
      Status error = results.get("throws").getError();
      assertEquals(Code.INTERNAL_VALUE, error.getCode());
      assertEquals("the provider failed: look for request id r-1 in its log", error.getMessage());
    }
  }
  @Test
  void anErrorThatConcernsAllItemsStopsTheBatch() throws Exception {
    AtomicInteger calls = new AtomicInteger();
    Fixtures.LookUp lookUp = (call, node) -> {
      calls.incrementAndGet();
      throw new ProviderException(ErrorReason.ERROR_REASON_RATE_LIMITED, "429").retryAfter(Duration.ofSeconds(3));
    };
    try (Served served = Served.of(provider().instances(lookUp))) {
      String[] names = IntStream.range(0, 50).mapToObj(number -> "n-" + number).toArray(String[]::new);
      Map<String, InstanceResult> results = results(served.instances().batchGetInstances(lookup(names)));
      assertEquals(50, results.size());
      results.values().forEach(result -> assertEquals("RATE_LIMITED", reason(result.getError())));
      assertTrue(calls.get() <= 8, "items were asked about after the cloud had limited the rate: " + calls);
    }
  }

  @Test
  void whatHangsCostsNoOtherItem() throws Exception {
    Fixtures.LookUp lookUp = (call, node) -> {
      if (node.getName().equals("hangs")) {
        Thread.sleep(60_000);
      }
      return found(node.getName());
    };
    try (Served served = Served.of(provider().instances(lookUp))) {
      Map<String, InstanceResult> results = results(served.instances()
          .withDeadlineAfter(3, TimeUnit.SECONDS).batchGetInstances(lookup("hangs", "a", "b")));
      assertTrue(results.get("a").hasFound() && results.get("b").hasFound());
      assertEquals(Code.DEADLINE_EXCEEDED_VALUE, results.get("hangs").getError().getCode());
    }
  }

  @Test
  void aLookupIsInterruptedOnceItsCallerIsGoneAndAChangeGoesOn() throws Exception {
    CountDownLatch interrupted = new CountDownLatch(1);
    CountDownLatch begun = new CountDownLatch(1);
    CountDownLatch released = new CountDownLatch(1);
    AtomicBoolean wasGone = new AtomicBoolean();
    AtomicInteger changes = new AtomicInteger();
    CountDownLatch looking = new CountDownLatch(1);
    Fixtures.LookUp lookUp = (call, node) -> {
      looking.countDown();
      try {
        Thread.sleep(60_000);
      } catch (InterruptedException error) {
        interrupted.countDown();
      }
      return found("a");
    };
    Fixtures.Change change = (call, service, targets) -> {
      if (changes.incrementAndGet() == 1) {
        begun.countDown();
        released.await();
        await(() -> isGone(call));
        wasGone.set(true);
      }
      return Answers.ready("192.0.2.1");
    };
    try (Served served = Served.of(provider().instances(lookUp).loadBalancers(change))) {
      var lookup = InstancesServiceGrpc.newFutureStub(served.channel()).batchGetInstances(lookup("a"));
      assertTrue(looking.await(10, TimeUnit.SECONDS));
      lookup.cancel(true);
      assertTrue(interrupted.await(10, TimeUnit.SECONDS));
      var first = LoadBalancersServiceGrpc.newFutureStub(served.channel()).ensureLoadBalancer(ensure("s"));
      assertTrue(begun.await(10, TimeUnit.SECONDS));
      first.cancel(true);
      // The key is held until the first change has ended.
      CompletableFuture<Void> second =
          CompletableFuture.runAsync(() -> served.loadBalancers().ensureLoadBalancer(ensure("s")));
      served.loadBalancers().ensureLoadBalancer(ensure("other"));
      assertFalse(second.isDone());
      released.countDown();
      second.get(10, TimeUnit.SECONDS);
      assertTrue(wasGone.get());
    }
  }

  @Test
  void noMoreChangesRunThanMaxInFlight() throws Exception {
    AtomicInteger running = new AtomicInteger();
    AtomicInteger most = new AtomicInteger();
    Fixtures.Change change = new Fixtures.Change() {
      @Override
      public LoadBalancersCapability capability() {
        return LoadBalancersCapability.newBuilder().setMaxInFlight(1).build();
      }

      @Override
      public LoadBalancerAnswer make(Call call, Service service, Targets targets) throws Exception {
        most.accumulateAndGet(running.incrementAndGet(), Math::max);
        Thread.sleep(5);
        running.decrementAndGet();
        return Answers.ready("192.0.2.1");
      }
    };
    try (Served served = Served.of(provider().loadBalancers(change))) {
      List<CompletableFuture<Void>> all = new ArrayList<>();
      for (int i = 0; i < 8; i++) {
        String uid = "s-" + i;
        all.add(CompletableFuture.runAsync(() -> served.loadBalancers().ensureLoadBalancer(ensure(uid))));
      }
      all.forEach(CompletableFuture::join);
      assertEquals(1, most.get());
    }
  }

  @Test
  void aHandlerGetsTheIdentityOfTheLastAnswerAsAHint() throws Exception {
    Fixtures.Change change = (call, service, targets) -> Answers.ready(call.identity.getId());
    try (Served served = Served.of(provider().loadBalancers(change))) {
      UpdateLoadBalancerNodesRequest request = UpdateLoadBalancerNodesRequest.newBuilder().setContext(Served.CONTEXT)
          .setTargets(NodeTargets.newBuilder().setInline(InlineNodes.getDefaultInstance()))
          .setService(Service.newBuilder().setUid("s")).setIdentity(LoadBalancerIdentity.newBuilder().setId("192.0.2.7")).build();
      assertEquals("192.0.2.7", served.loadBalancers().updateLoadBalancerNodes(request).getAnswer().getStatus().getIngress(0).getIp());
    }
  }

  @Test
  void servicesOfOtherClassesAreNotTouchedAndOneWithoutAUidIsRefused() throws Exception {
    try (Served served = Served.of(provider().loadBalancers((Fixtures.Change) (call, service, targets) -> Answers.ready("192.0.2.1")))) {
      Service other = Service.newBuilder().setUid("s").setLoadBalancerClass("example.com/other").build();
      assertEquals(Answers.NOT_MANAGED, served.loadBalancers().ensureLoadBalancer(ensure("s").toBuilder().setService(other).build()).getAnswer());
      assertEquals("INVALID_REQUEST", reason(refusal(() -> served.loadBalancers().ensureLoadBalancer(ensure("")))));
    }
  }

  @Test
  void theStatusIsDegradedAfterTheCloudAsAWholeHasFailedACallUntilOneSucceeds() throws Exception {
    AtomicBoolean fails = new AtomicBoolean(true);
    Fixtures.LookUp lookUp = (call, node) -> {
      if (fails.get()) {
        throw new ProviderException(ErrorReason.ERROR_REASON_CREDENTIALS_INVALID, "401");
      }
      return found("a");
    };
    try (Served served = Served.of(provider().instances(lookUp))) {
      served.instances().batchGetInstances(lookup("a"));
      GetStatusResponse status = served.provider().getStatus(GetStatusRequest.getDefaultInstance());
      assertEquals(Readiness.READINESS_DEGRADED, status.getReadiness());
      assertEquals("401", status.getDependencies(0).getMessage());
      fails.set(false);
      served.instances().batchGetInstances(lookup("a"));
      assertEquals(Readiness.READINESS_READY, served.provider().getStatus(GetStatusRequest.getDefaultInstance()).getReadiness());
    }
  }

  @Test
  void aListIsSentInPartsAndIsNotCompleteWhereItFails() throws Exception {
    AtomicBoolean fails = new AtomicBoolean();
    Instances instances = new Instances() {
      @Override
      public InstanceResult getInstance(Call call, Node node, Query query) {
        return Lookup.absent();
      }

      @Override
      public Stream<Instance> listInstances(Call call, Query query) {
        return IntStream.range(0, 3000).mapToObj(number -> {
          if (fails.get() && number == 2999) {
            throw new ProviderException(ErrorReason.ERROR_REASON_CLOUD_UNAVAILABLE, "the last page is missing");
          }
          return Instance.newBuilder().setProviderId("test://" + "x".repeat(1000) + number).build();
        });
      }
    };
    try (Served served = Served.of(provider().instances(instances))) {
      ListInstancesRequest request = ListInstancesRequest.newBuilder().setContext(Served.CONTEXT).build();
      List<ListInstancesResponse> parts = new ArrayList<>();
      served.instances().listInstances(request).forEachRemaining(parts::add);
      assertTrue(parts.size() >= 3);
      assertEquals(3000, parts.stream().mapToInt(ListInstancesResponse::getItemsCount).sum());
      assertTrue(parts.stream().allMatch(part -> part.getSerializedSize() <= 1 << 20));
      assertEquals(1, parts.stream().filter(ListInstancesResponse::getComplete).count());
      fails.set(true);
      Status error = refusal(() -> served.instances().listInstances(request).forEachRemaining(parts::add));
      assertEquals("CLOUD_UNAVAILABLE", reason(error));
    }
  }

  @Test
  void aRouteIsMadeAndRemovedAndAChangeOfItsDestinationWaitsForAnotherOneInWhicheverSpelling() throws Exception {
    CountDownLatch begun = new CountDownLatch(1);
    CountDownLatch released = new CountDownLatch(1);
    List<String> order = new CopyOnWriteArrayList<>();
    Routes routes = new Routes() {
      @Override
      public Stream<Route> listRoutes(Call call) {
        return Stream.of();
      }

      @Override
      public CreateRouteResponse createRoute(Call call, Route route) throws Exception {
        begun.countDown();
        released.await();
        order.add("made");
        return CreateRouteResponse.newBuilder().setFound(route.toBuilder().setName("made")).build();
      }

      @Override
      public DeleteRouteResponse deleteRoute(Call call, Route route) {
        order.add("removed " + route.getDestinationCidr());
        return DeleteRouteResponse.getDefaultInstance();
      }
    };
    try (Served served = Served.of(provider().routes(routes))) {
      CompletableFuture<CreateRouteResponse> creation = CompletableFuture.supplyAsync(() ->
          served.routes().createRoute(CreateRouteRequest.newBuilder().setContext(Served.CONTEXT)
              .setRoute(Route.newBuilder().setDestinationCidr("2001:db8::/64")).build()));
      begun.await();
      CompletableFuture<DeleteRouteResponse> removal =
          CompletableFuture.supplyAsync(() -> served.routes().deleteRoute(removal("2001:DB8:0:0::/64")));
      served.routes().deleteRoute(removal("10.0.0.0/24"));
      released.countDown();
      assertEquals("made", creation.get(10, TimeUnit.SECONDS).getFound().getName());
      assertTrue(removal.get(10, TimeUnit.SECONDS).hasAbsent());
      assertEquals(List.of("removed 10.0.0.0/24", "made", "removed 2001:DB8:0:0::/64"), order);
    }
  }

  private static DeleteRouteRequest removal(String destination) {
    return DeleteRouteRequest.newBuilder().setContext(Served.CONTEXT)
        .setRoute(Route.newBuilder().setDestinationCidr(destination)).build();
  }

  @Test
  void callersThatWaitTogetherShareOneCallWhichBeginsAfterEachOfThemHasCome() throws Exception {
    CountDownLatch released = new CountDownLatch(1);
    List<List<String>> calls = new CopyOnWriteArrayList<>();
    Batcher<String, String> batcher = new Batcher<>(3, items -> {
      calls.add(items);
      released.await();
      if (items.contains("bad")) {
        throw new ProviderException(ErrorReason.ERROR_REASON_CLOUD_ERROR, "422");
      }
      return items.stream().map(String::toUpperCase).toList();
    });
    List<CompletableFuture<String>> answers = new ArrayList<>();
    for (String item : List.of("a", "b", "c", "d", "bad")) {
      int waiting = answers.size();
      answers.add(new CompletableFuture<>());
      Thread caller = new Thread(() -> {
        try {
          answers.get(waiting).complete(batcher.call(item));
        } catch (Exception error) {
          answers.get(waiting).completeExceptionally(error);
        }
      });
      caller.start();
      await(() -> waiting == 0 ? calls.size() == 1 : caller.getState() == Thread.State.WAITING);
    }
    released.countDown();
    assertEquals(List.of("A", "B", "C", "D"), answers.subList(0, 4).stream().map(CompletableFuture::join).toList());
    assertThrows(CompletionException.class, answers.get(4)::join);
    assertEquals(List.of(List.of("a"), List.of("b", "c", "d"), List.of("bad")), calls);
  }

  @Test
  void statusIsAnsweredWhileAllHandlersHang() throws Exception {
    AtomicInteger running = new AtomicInteger();
    Fixtures.LookUp lookUp = (call, node) -> {
      running.incrementAndGet();
      Thread.sleep(60_000);
      return found("a");
    };
    Provider provider = provider().instances(lookUp).status(() -> {
      throw new IllegalStateException("a status that fails");
    });
    Served served = Served.of(provider);
    try {
      for (int i = 0; i < 200; i++) {
        InstancesServiceGrpc.newFutureStub(served.channel())
            .withDeadlineAfter(8, TimeUnit.SECONDS).batchGetInstances(lookup("a"));
      }
      await(() -> running.get() == 200);
      var status = served.provider().withDeadlineAfter(5, TimeUnit.SECONDS).getStatus(GetStatusRequest.getDefaultInstance());
      assertEquals(Readiness.READINESS_BROKEN, status.getReadiness());
      assertFalse(status.getBootId().isEmpty());
      assertEquals(ServingStatus.NOT_SERVING, HealthGrpc.newBlockingStub(served.channel())
          .check(HealthCheckRequest.getDefaultInstance()).getStatus());
    } finally {
      served.close();
    }
  }

  @Test
  void aSocketIsTakenOverWhereItIsStaleAndRefusedWhereItIsServed(@TempDir Path folder) throws Exception {
    Path path = folder.resolve("new/provider.sock");
    String endpoint = "unix://" + path;
    Provider provider = provider().instances((Fixtures.LookUp) (call, node) -> found("a"));
    try (ProviderServer server = ProviderServer.serve(provider, endpoint)) {
      assertEquals("rw-rw----", java.nio.file.attribute.PosixFilePermissions.toString(Files.getPosixFilePermissions(path)));
      String text = assertThrows(java.io.IOException.class, () -> ProviderServer.serve(provider, endpoint)).getMessage();
      assertTrue(text.contains("another process serves"), text);
      assertTrue(server.isReachable());
    }
    assertFalse(Files.exists(path));
    try (var stale = java.nio.channels.ServerSocketChannel.open(java.net.StandardProtocolFamily.UNIX)) {
      stale.bind(java.net.UnixDomainSocketAddress.of(path));
    }
    try (ProviderServer server = ProviderServer.serve(provider, endpoint)) {
      Files.delete(path);
      assertFalse(server.isReachable());
      Files.writeString(path, "mine");
      assertThrows(java.io.IOException.class, () -> ProviderServer.serve(provider, endpoint));
    }
    assertEquals("mine", Files.readString(path), "the file of another was removed");
    assertThrows(IllegalArgumentException.class, () -> SocketFile.pathOf("unix://relative/"));
    assertThrows(IllegalArgumentException.class, () -> SocketFile.pathOf("unix:///" + "x".repeat(100)));
  }
}
