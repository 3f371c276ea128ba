package dev.outrigger.provider;

import com.google.protobuf.Message;
import dev.outrigger.cloudprovider.v1.DeleteLoadBalancerRequest;
import dev.outrigger.cloudprovider.v1.DeleteLoadBalancerResponse;
import dev.outrigger.cloudprovider.v1.EnsureLoadBalancerRequest;
import dev.outrigger.cloudprovider.v1.EnsureLoadBalancerResponse;
import dev.outrigger.cloudprovider.v1.GetLoadBalancerRequest;
import dev.outrigger.cloudprovider.v1.GetLoadBalancerResponse;
import dev.outrigger.cloudprovider.v1.ListLoadBalancersRequest;
import dev.outrigger.cloudprovider.v1.ListLoadBalancersResponse;
import dev.outrigger.cloudprovider.v1.LoadBalancerAnswer;
import dev.outrigger.cloudprovider.v1.LoadBalancerDisposition;
import dev.outrigger.cloudprovider.v1.LoadBalancersCapability;
import dev.outrigger.cloudprovider.v1.PlanLoadBalancerRequest;
import dev.outrigger.cloudprovider.v1.PlanLoadBalancerResponse;
import dev.outrigger.cloudprovider.v1.PlanOperation;
import dev.outrigger.cloudprovider.v1.PlannedChange;
import dev.outrigger.cloudprovider.v1.Service;
import dev.outrigger.cloudprovider.v1.UpdateLoadBalancerNodesRequest;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.atomic.AtomicReference;

/** Serves LoadBalancersService: resolves targets, runs one change of a Service at a time, checks answers. */
final class LoadBalancersRpc {
  /** An update must not fall silent because of another call of one Service. */
  private static final Duration KEY_PATIENCE = Duration.ofSeconds(10);
  private static final Duration LEAST_RETRY = Duration.ofSeconds(1);
  private static final Duration MOST_RETRY = Duration.ofSeconds(300);

  private static final LoadBalancerDisposition READY = LoadBalancerDisposition.LOAD_BALANCER_DISPOSITION_READY;
  private static final LoadBalancerDisposition DIFFERS = LoadBalancerDisposition.LOAD_BALANCER_DISPOSITION_DIFFERS;
  private static final LoadBalancerDisposition ABSENT = LoadBalancerDisposition.LOAD_BALANCER_DISPOSITION_ABSENT;
  private static final LoadBalancerDisposition RETAINED = LoadBalancerDisposition.LOAD_BALANCER_DISPOSITION_RETAINED;
  private static final LoadBalancerDisposition IN_PROGRESS = LoadBalancerDisposition.LOAD_BALANCER_DISPOSITION_IN_PROGRESS;
  private static final LoadBalancerDisposition NOT_MANAGED = LoadBalancerDisposition.LOAD_BALANCER_DISPOSITION_NOT_MANAGED;
  private static final Map<String, Set<LoadBalancerDisposition>> DISPOSITIONS = Map.of(
      "GetLoadBalancer", Set.of(READY, DIFFERS, ABSENT, IN_PROGRESS, NOT_MANAGED),
      "EnsureLoadBalancer", Set.of(READY, IN_PROGRESS, NOT_MANAGED),
      "UpdateLoadBalancerNodes", Set.of(READY, ABSENT, IN_PROGRESS, NOT_MANAGED),
      "DeleteLoadBalancer", Set.of(ABSENT, RETAINED, IN_PROGRESS, NOT_MANAGED));

  private final LoadBalancers author;
  private final NodeSets nodeSets;
  private final Keys keys;

  LoadBalancersRpc(LoadBalancers author, NodeSets nodeSets) {
    this.author = author;
    this.nodeSets = nodeSets;
    this.keys = new Keys(KEY_PATIENCE, null, author.capability().getMaxInFlight());
  }

  /** Adds the methods that are offered. */
  void serve(Rpcs rpcs, LoadBalancersCapability offered) {
    rpcs.serve("GetLoadBalancer", Rpc.<GetLoadBalancerRequest>unary(this::get))
        .serve("EnsureLoadBalancer", Rpc.<EnsureLoadBalancerRequest>unary(this::ensure))
        .<UpdateLoadBalancerNodesRequest>serve("UpdateLoadBalancerNodes", this::update)
        .serve("DeleteLoadBalancer", Rpc.<DeleteLoadBalancerRequest>unary(this::delete));
    if (offered.getList()) {
      rpcs.<ListLoadBalancersRequest>serve("ListLoadBalancers", (call, request, sink) ->
          Pages.send(call, ListLoadBalancersResponse.getDefaultInstance(), author.listLoadBalancers(call), sink));
    }
    if (offered.getPlan()) {
      rpcs.serve("PlanLoadBalancer", Rpc.<PlanLoadBalancerRequest>unary(this::plan));
    }
  }

  private Message get(Call call, GetLoadBalancerRequest request) throws Exception {
    Optional<Targets> targets =
        request.hasTargets() ? Optional.of(nodeSets.resolve(request.getTargets())) : Optional.empty();
    Service service = named(request.getService());
    LoadBalancerAnswer answer = checked(call, author.getLoadBalancer(call, service, targets));
    return GetLoadBalancerResponse.newBuilder().setAnswer(answer).build();
  }

  private Message ensure(Call call, EnsureLoadBalancerRequest request) throws Exception {
    Targets targets = nodeSets.resolve(request.getTargets());
    Service service = named(request.getService());
    LoadBalancerAnswer answer = !serves(service)
        ? Answers.NOT_MANAGED : change(call, service, () -> author.ensureLoadBalancer(call, service, targets));
    return EnsureLoadBalancerResponse.newBuilder().setAnswer(answer).build();
  }

  /** Sends each result when it is there. */
  private void update(Call call, UpdateLoadBalancerNodesRequest request, Rpc.Sink sink) throws Exception {
    Targets targets = nodeSets.resolve(request.getTargets());
    Method method = Method.ALL.get(call.rpc());
    Results results = new Results(call, method.response(), author);
    int most = author.capability().getMaxInFlight();
    int concurrency = most == 0 ? author.concurrency() : Math.min(author.concurrency(), most);
    AtomicReference<Exception> notSent = new AtomicReference<>();
    Each.<Service, LoadBalancerAnswer>of(call, request.getItemsList(), method::key, concurrency, service -> {
      named(service);
      return Outcome.found(!serves(service)
          ? Answers.NOT_MANAGED : change(call, service, () -> author.updateLoadBalancerNodes(call, service, targets)));
    }, (service, outcome) -> {
      try {
        sink.send(results.one(method.key(service), outcome));
      } catch (InterruptedException | RuntimeException error) {
        notSent.compareAndSet(null, error);
      }
    });
    if (notSent.get() != null) {
      throw notSent.get();
    }
  }

  /** Removes, whatever the class. */
  private Message delete(Call call, DeleteLoadBalancerRequest request) throws Exception {
    Service service = named(request.getService());
    LoadBalancerAnswer answer = change(call, service, () -> author.deleteLoadBalancer(call, service));
    return DeleteLoadBalancerResponse.newBuilder().setAnswer(answer).build();
  }

  private Message plan(Call call, PlanLoadBalancerRequest request) throws Exception {
    boolean isEnsure = request.getOperation() == PlanOperation.PLAN_OPERATION_ENSURE;
    if (!isEnsure && request.getOperation() != PlanOperation.PLAN_OPERATION_DELETE) {
      throw new ProviderException(Reason.INVALID_REQUEST, "the request names no operation that this provider knows");
    }
    Optional<Targets> targets = isEnsure ? Optional.of(nodeSets.resolve(request.getTargets())) : Optional.empty();
    Service service = named(request.getService());
    List<PlannedChange> changes =
        isEnsure && !serves(service) ? List.of() : author.planLoadBalancer(call, service, targets);
    return PlanLoadBalancerResponse.newBuilder().addAllChanges(changes).build();
  }

  /** A change of the cloud, by the author. */
  @FunctionalInterface
  private interface Change {
    LoadBalancerAnswer make() throws Exception;
  }

  private LoadBalancerAnswer change(Call call, Service service, Change change) throws Exception {
    try (Keys.Held key = keys.key(call, "Service " + service.getUid()); Keys.Held slot = keys.slot(call)) {
      return checked(call, change.make());
    }
  }

  private boolean serves(Service service) {
    LoadBalancersCapability capability = author.capability();
    return service.hasLoadBalancerClass()
        ? capability.getClassesList().contains(service.getLoadBalancerClass()) : !capability.getWithoutDefaultClass();
  }

  private static Service named(Service service) {
    if (service.getUid().isEmpty()) {
      throw new ProviderException(Reason.INVALID_REQUEST, "the request has no Service, or one without a UID");
    }
    return service;
  }

  /** The answer within the contract's limits; a wrong one is an error where its author sees it. */
  private LoadBalancerAnswer checked(Call call, LoadBalancerAnswer answer) {
    String handler = author.getClass().getSimpleName();
    if (answer == null) {
      throw new IllegalStateException(handler + " has answered null to " + call.rpc() + ", and not LoadBalancerAnswer");
    }
    if (!DISPOSITIONS.get(call.rpc()).contains(answer.getDisposition())) {
      throw new IllegalStateException(
          handler + " has answered " + answer.getDisposition() + ", which is no answer to " + call.rpc());
    }
    boolean isReached = answer.getStatus().getIngressCount() > 0;
    if (call.rpc().equals("EnsureLoadBalancer") && answer.getDisposition() == READY && !isReached) {
      throw new IllegalStateException(handler + " has answered ready without an address");
    }
    LoadBalancerAnswer.Builder checked = answer.toBuilder()
        .setReason(Statuses.cut(answer.getReason(), 128)).setMessage(Statuses.cut(answer.getMessage()));
    if (answer.hasRetryAfter()) {
      Duration retry = Statuses.time(answer.getRetryAfter());
      Duration limited = retry.compareTo(LEAST_RETRY) < 0 ? LEAST_RETRY : retry.compareTo(MOST_RETRY) > 0 ? MOST_RETRY : retry;
      checked.setRetryAfter(Statuses.duration(limited));
    }
    return checked.build();
  }
}
