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
import dev.outrigger.cloudprovider.v1.AbsenceCertainty;
import dev.outrigger.cloudprovider.v1.BatchCreateRoutesRequest;
import dev.outrigger.cloudprovider.v1.BatchCreateRoutesResponse;
import dev.outrigger.cloudprovider.v1.BatchDeleteRoutesRequest;
import dev.outrigger.cloudprovider.v1.BatchGetInstancesResponse;
import dev.outrigger.cloudprovider.v1.ClusterInfo;
import dev.outrigger.cloudprovider.v1.EnsureLoadBalancerRequest;
import dev.outrigger.cloudprovider.v1.GetStatusRequest;
import dev.outrigger.cloudprovider.v1.Instance;
import dev.outrigger.cloudprovider.v1.InstanceResult;
import dev.outrigger.cloudprovider.v1.InstancesCapability;
import dev.outrigger.cloudprovider.v1.InstancesServiceGrpc;
import dev.outrigger.cloudprovider.v1.LoadBalancerAnswer;
import dev.outrigger.cloudprovider.v1.LoadBalancersCapability;
import dev.outrigger.cloudprovider.v1.LoadBalancersServiceGrpc;
import dev.outrigger.cloudprovider.v1.ListInstancesRequest;
import dev.outrigger.cloudprovider.v1.ListInstancesResponse;
import dev.outrigger.cloudprovider.v1.Node;
import dev.outrigger.cloudprovider.v1.InlineNodes;
import dev.outrigger.cloudprovider.v1.NodeTargets;
import dev.outrigger.cloudprovider.v1.Readiness;
import dev.outrigger.cloudprovider.v1.Route;
import dev.outrigger.cloudprovider.v1.Service;
import dev.outrigger.cloudprovider.v1.UpdateLoadBalancerNodesRequest;
import dev.outrigger.cloudprovider.v1.UpdateLoadBalancerNodesResponse;
import dev.outrigger.provider.testing.Served;
import io.grpc.StatusRuntimeException;
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
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
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

  private static Outcome<Instance> found(String name) {
    return Outcome.found(Instance.newBuilder().setProviderId("test://" + name).build());
  }

  private static EnsureLoadBalancerRequest ensure(String uid) {
    return EnsureLoadBalancerRequest.newBuilder().setContext(Served.CONTEXT).setService(Service.newBuilder().setUid(uid))
        .setTargets(NodeTargets.newBuilder().setInline(InlineNodes.getDefaultInstance())).build();
  }

  @Test
  void anItemHasTheOutcomeOfItsHandler() throws Exception {
    Fixtures.LookUp lookUp = (call, node) -> switch (node.getName()) {
      case "there" -> found("there");
      case "gone" -> Outcome.absent();
      case "cached" -> Outcome.absent(Duration.ofMinutes(5));
      case "foreign" -> Outcome.notManaged("another cloud's");
      case "refused" -> throw new ProviderException(Reason.MALFORMED_PROVIDER_ID, "no ID");
      case "throws" -> throw new java.io.IOException("a secret");
      case "null" -> null;
      default -> Outcome.done();
    };
    try (Served served = Served.of(provider().instances(lookUp))) {
      Map<String, InstanceResult> results = results(served.instances().batchGetInstances(
          lookup("there", "gone", "cached", "foreign", "refused", "throws", "null", "done")));
      assertEquals("test://there", results.get("there").getFound().getProviderId());
      assertEquals(AbsenceCertainty.ABSENCE_CERTAINTY_CONFIRMED, results.get("gone").getAbsent().getCertainty());
      assertEquals(AbsenceCertainty.ABSENCE_CERTAINTY_NOT_VISIBLE_YET, results.get("cached").getAbsent().getCertainty());
      assertEquals("another cloud's", results.get("foreign").getNotManaged().getReason());
      assertEquals("MALFORMED_PROVIDER_ID", reason(results.get("refused").getError()));
      for (String name : List.of("throws", "null", "done")) {
        Status error = results.get(name).getError();
        assertEquals(Code.INTERNAL_VALUE, error.getCode(), name);
        assertEquals("the provider failed: look for request id r-1 in its log", error.getMessage());
      }
    }
  }

  @Test
  void aBatchWithoutAResultForAnItemIsAnErrorOfThatItem() throws Exception {
    Instances instances = new Instances() {
      @Override
      public Map<String, Outcome<Instance>> getInstances(Call call, List<Node> nodes, Query query) {
        return Map.of("a", found("a"), "unasked", found("unasked"));
      }
    };
    try (Served served = Served.of(provider().instances(instances))) {
      Map<String, InstanceResult> results = results(served.instances().batchGetInstances(lookup("a", "b")));
      assertEquals(Set.of("a", "b"), results.keySet());
      assertTrue(results.get("a").hasFound());
      assertEquals(Code.INTERNAL_VALUE, results.get("b").getError().getCode());
    }
  }

  @Test
  void anErrorThatConcernsAllItemsStopsTheBatch() throws Exception {
    AtomicInteger calls = new AtomicInteger();
    Fixtures.LookUp lookUp = (call, node) -> {
      calls.incrementAndGet();
      throw new ProviderException(Reason.RATE_LIMITED, "429").retryAfter(Duration.ofSeconds(3));
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
        await(call::isGone);
        assertThrows(CallerGoneException.class, call::check);
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
  void aHandlerThatIgnoresItsInterruptIsNamedOnce() throws Exception {
    AtomicBoolean released = new AtomicBoolean();
    Fixtures.LookUp lookUp = (call, node) -> {
      while (!released.get()) {
        Thread.onSpinWait();
      }
      return found("a");
    };
    List<LogRecord> lines = new CopyOnWriteArrayList<>();
    Handler handler = new Handler() {
      @Override
      public void publish(LogRecord line) {
        lines.add(line);
      }

      @Override
      public void flush() {}

      @Override
      public void close() {}
    };
    Logger logger = Logger.getLogger("dev.outrigger.provider");
    logger.addHandler(handler);
    try (Served served = Served.of(provider().instances(lookUp))) {
      try {
        served.instances().withDeadlineAfter(200, TimeUnit.MILLISECONDS).batchGetInstances(lookup("a"));
      } catch (StatusRuntimeException late) {
        // The answer without the result of this Node may come before the deadline, or not.
      }
      await(() -> lines.stream().anyMatch(line -> line.getMessage().startsWith("a handler runs on")));
      released.set(true);
    } finally {
      logger.removeHandler(handler);
    }
    assertEquals(1, lines.stream().filter(line -> line.getLevel() == Level.WARNING).count());
  }

  @Test
  void aTaskWhoseThreadDoesNotBeginIsNoneOfTheCall() throws Exception {
    Core core = new Core(provider());
    core.shakeHands(ClusterInfo.newBuilder().setName(Served.CONTEXT.getClusterName()).build(), 0);
    Method method = Method.ALL.get("BatchGetInstances");
    Call call = core.admit(method, lookup("a"), Served.CONTEXT, Duration.ofHours(1), "");
    core.threads().shutdownNow();
    assertThrows(RejectedExecutionException.class, () -> call.fork(() -> {}));
    call.finish();
    assertEquals(0, core.awaitCalls(Duration.ZERO));
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
  void anAnswerThatIsNoneIsAnErrorInTheLog() throws Exception {
    Map<String, LoadBalancerAnswer> answers = new ConcurrentHashMap<>(Map.of(
        "differs", Answers.differs("x"), "absent", Answers.ABSENT, "empty", LoadBalancerAnswer.getDefaultInstance(),
        "nowhere", Answers.ready(), "soon", Answers.inProgress(Duration.ofHours(1))));
    Fixtures.Change change = (call, service, targets) -> answers.get(service.getUid());
    try (Served served = Served.of(provider().loadBalancers(change))) {
      for (String uid : List.of("differs", "absent", "empty", "nowhere", "null")) {
        Status error = refusal(() -> served.loadBalancers().ensureLoadBalancer(ensure(uid)));
        assertEquals(Code.INTERNAL_VALUE, error.getCode(), uid);
      }
      assertEquals(300,
          served.loadBalancers().ensureLoadBalancer(ensure("soon")).getAnswer().getRetryAfter().getSeconds());
    }
  }

  @Test
  void anUpdateSendsEachResultWhenItIsThere() throws Exception {
    CountDownLatch released = new CountDownLatch(1);
    Fixtures.Change change = (call, service, targets) -> {
      if (service.getUid().equals("slow")) {
        released.await();
      }
      return Answers.ready("192.0.2.1");
    };
    try (Served served = Served.of(provider().loadBalancers(change))) {
      UpdateLoadBalancerNodesRequest request = UpdateLoadBalancerNodesRequest.newBuilder().setContext(Served.CONTEXT)
          .setTargets(NodeTargets.newBuilder().setInline(InlineNodes.getDefaultInstance()))
          .addItems(Service.newBuilder().setUid("slow")).addItems(Service.newBuilder().setUid("fast")).build();
      var responses = served.loadBalancers().updateLoadBalancerNodes(request);
      assertEquals("fast", responses.next().getResults(0).getKey());
      released.countDown();
      UpdateLoadBalancerNodesResponse last = responses.next();
      assertEquals("slow", last.getResults(0).getKey());
      assertFalse(responses.hasNext());
    }
  }

  @Test
  void aListIsSentInPartsAndIsNotCompleteWhereItFails() throws Exception {
    AtomicBoolean fails = new AtomicBoolean();
    Instances instances = new Instances() {
      @Override
      public Outcome<Instance> getInstance(Call call, Node node, Query query) {
        return Outcome.absent();
      }

      @Override
      public Stream<Instance> listInstances(Call call, Query query) {
        return IntStream.range(0, 3000).mapToObj(number -> {
          if (fails.get() && number == 2999) {
            throw new ProviderException(Reason.CLOUD_UNAVAILABLE, "the last page is missing");
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
  void routesOfTwoSpellingsAreOne() throws Exception {
    CountDownLatch begun = new CountDownLatch(1);
    CountDownLatch released = new CountDownLatch(1);
    Routes routes = new Routes() {
      @Override
      public Stream<Route> listRoutes(Call call) {
        return Stream.of();
      }

      @Override
      public Outcome<Route> createRoute(Call call, Route route) throws Exception {
        begun.countDown();
        released.await();
        return Outcome.done();
      }

      @Override
      public Outcome<Route> deleteRoute(Call call, Route route) {
        return Outcome.done();
      }
    };
    try (Served served = Served.of(provider().routes(routes))) {
      CompletableFuture<BatchCreateRoutesResponse> creation = CompletableFuture.supplyAsync(() ->
          served.routes().batchCreateRoutes(BatchCreateRoutesRequest.newBuilder().setContext(Served.CONTEXT)
              .addItems(Route.newBuilder().setDestinationCidr("2001:db8::/64")).build()));
      begun.await();
      var refused = served.routes().batchDeleteRoutes(BatchDeleteRoutesRequest.newBuilder().setContext(Served.CONTEXT)
          .addItems(Route.newBuilder().setDestinationCidr("2001:DB8:0:0::1/64"))
          .addItems(Route.newBuilder().setDestinationCidr("10.0.0.0/24")).build());
      Map<String, Status> errors = new HashMap<>();
      refused.getResultsList().forEach(result -> errors.put(result.getKey(), result.getError()));
      assertEquals("OPERATION_IN_PROGRESS", reason(errors.get("2001:DB8:0:0::1/64")));
      assertEquals("", reason(errors.get("10.0.0.0/24")));
      released.countDown();
      assertTrue(creation.get(10, TimeUnit.SECONDS).getResults(0).hasFound());
    }
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
            .withDeadlineAfter(20, TimeUnit.SECONDS).batchGetInstances(lookup("a"));
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
  void aRequestOrAnAnswerThatIsTooLargeIsNamed() throws Exception {
    Fixtures.LookUp lookUp = (call, node) ->
        Outcome.found(Instance.newBuilder().setProviderId("test://" + "x".repeat(5 << 20)).build());
    try (Served served = Served.of(provider().instances(lookUp))) {
      Status error = refusal(() -> served.instances().batchGetInstances(lookup("x".repeat(5 << 20))));
      assertEquals("INVALID_REQUEST", reason(error));
      assertTrue(error.getMessage().contains("max_receive_message_bytes"), error.getMessage());
      assertEquals(Code.INTERNAL_VALUE, refusal(() -> served.instances().batchGetInstances(lookup("a"))).getCode());
    }
  }

  @Test
  void aMethodThatIsNotServedIsRefused() throws Exception {
    Fixtures.LookUp lookUp = (call, node) -> found("a");
    try (Served served = Served.of(provider().instances(lookUp))) {
      assertEquals("CAPABILITY_DISABLED", reason(refusal(() -> served.loadBalancers().ensureLoadBalancer(ensure("s")))));
      assertEquals("CAPABILITY_DISABLED", reason(refusal(() -> served.instances()
          .listInstances(ListInstancesRequest.newBuilder().setContext(Served.CONTEXT).build()).hasNext())));
    }
  }

  @Test
  void aDeclarationThatTheControllerWouldRefuseIsRefused() {
    Map<String, Provider> wrong = Map.of(
        "is not legal", Provider.named("Not Legal", "1"),
        "has neither getInstance nor getInstances", provider().instances(new Instances() {}),
        "use at most 500", provider().instances(new Instances() {
          @Override
          public InstancesCapability capability() {
            return InstancesCapability.newBuilder().setMaxBatchSize(501).build();
          }

          @Override
          public Outcome<Instance> getInstance(Call call, Node node, Query query) {
            return Outcome.absent();
          }
        }),
        "visible ASCII", provider().serviceAnnotationPrefixes("a b"));
    wrong.forEach((text, provider) -> {
      String message = assertThrows(IllegalArgumentException.class, provider::capabilities).getMessage();
      assertTrue(message.contains(text), message);
    });
  }

  @Test
  void aSocketIsTakenOverWhereItIsStaleAndRefusedWhereItIsServed(@TempDir Path folder) throws Exception {
    Path path = folder.resolve("new/provider.sock");
    String endpoint = "unix://" + path;
    Provider provider = provider().instances((Fixtures.LookUp) (call, node) -> found("a"));
    try (ProviderServer server = ProviderServer.serve(provider, endpoint)) {
      assertEquals("rw-rw----", java.nio.file.attribute.PosixFilePermissions.toString(Files.getPosixFilePermissions(path)));
      String text = assertThrows(SocketException.class, () -> ProviderServer.serve(provider, endpoint)).getMessage();
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
      assertThrows(SocketException.class, () -> ProviderServer.serve(provider, endpoint));
    }
    assertEquals("mine", Files.readString(path), "the file of another was removed");
    assertThrows(IllegalArgumentException.class, () -> SocketFile.pathOf("unix://relative/"));
    assertThrows(IllegalArgumentException.class, () -> SocketFile.pathOf("unix:///" + "x".repeat(100)));
  }
}
