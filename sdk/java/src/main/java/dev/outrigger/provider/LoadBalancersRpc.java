package dev.outrigger.provider;

import dev.outrigger.cloudprovider.v1.*;
import io.grpc.ServerServiceDefinition;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.Callable;

/** Serves LoadBalancersService: resolves targets, and runs one change of a Service at a time. */
record LoadBalancersRpc(LoadBalancers author, NodeSets nodeSets, Keys keys) {
  static ServerServiceDefinition of(Core core, LoadBalancers author, NodeSets nodeSets) {
    LoadBalancersRpc rpc = new LoadBalancersRpc(author, nodeSets, new Keys(author.capability().getMaxInFlight()));
    Methods methods = new Methods(core, LoadBalancersServiceGrpc.SERVICE_NAME)
        .unary(LoadBalancersServiceGrpc.getGetLoadBalancerMethod(), rpc::get)
        .unary(LoadBalancersServiceGrpc.getEnsureLoadBalancerMethod(), rpc::ensure)
        .unary(LoadBalancersServiceGrpc.getUpdateLoadBalancerNodesMethod(), rpc::update)
        .unary(LoadBalancersServiceGrpc.getDeleteLoadBalancerMethod(), rpc::delete)
        .list(LoadBalancersServiceGrpc.getListLoadBalancersMethod(), (call, request) -> author.listLoadBalancers(call));
    return !Provider.hasMethod(author, LoadBalancers.class, "planLoadBalancer") ? methods.build()
        : methods.unary(LoadBalancersServiceGrpc.getPlanLoadBalancerMethod(), rpc::plan).build();
  }

  private GetLoadBalancerResponse get(Call call, GetLoadBalancerRequest request) throws Exception {
    Optional<Targets> targets = request.hasTargets() ? Optional.of(nodeSets.resolve(request.getTargets())) : Optional.empty();
    return GetLoadBalancerResponse.newBuilder()
        .setAnswer(author.getLoadBalancer(call, named(request.getService()), targets)).build();
  }

  private EnsureLoadBalancerResponse ensure(Call call, EnsureLoadBalancerRequest request) throws Exception {
    Targets targets = nodeSets.resolve(request.getTargets());
    Service service = named(request.getService());
    return EnsureLoadBalancerResponse.newBuilder().setAnswer(!serves(service) ? Answers.NOT_MANAGED
        : change(call, service, () -> author.ensureLoadBalancer(call, service, targets))).build();
  }

  private UpdateLoadBalancerNodesResponse update(Call call, UpdateLoadBalancerNodesRequest request) throws Exception {
    Targets targets = nodeSets.resolve(request.getTargets());
    Service service = named(request.getService());
    return UpdateLoadBalancerNodesResponse.newBuilder().setAnswer(!serves(service) ? Answers.NOT_MANAGED
        : change(call, service, () -> author.updateLoadBalancerNodes(call, service, targets))).build();
  }

  /** Removes, whatever the class. */
  private DeleteLoadBalancerResponse delete(Call call, DeleteLoadBalancerRequest request) throws Exception {
    Service service = named(request.getService());
    return DeleteLoadBalancerResponse.newBuilder()
        .setAnswer(change(call, service, () -> author.deleteLoadBalancer(call, service))).build();
  }

  private PlanLoadBalancerResponse plan(Call call, PlanLoadBalancerRequest request) throws Exception {
    boolean isEnsure = request.getOperation() == PlanOperation.PLAN_OPERATION_ENSURE;
    if (!isEnsure && request.getOperation() != PlanOperation.PLAN_OPERATION_DELETE) {
      throw ProviderException.invalid("the request names no operation that this provider knows");
    }
    Optional<Targets> targets = isEnsure ? Optional.of(nodeSets.resolve(request.getTargets())) : Optional.empty();
    Service service = named(request.getService());
    List<PlannedChange> changes = isEnsure && !serves(service) ? List.of() : author.planLoadBalancer(call, service, targets);
    return PlanLoadBalancerResponse.newBuilder().addAllChanges(changes).build();
  }

  private LoadBalancerAnswer change(Call call, Service service, Callable<LoadBalancerAnswer> work) throws Exception {
    return keys.run(call, "Service " + service.getUid(), work);
  }

  private boolean serves(Service service) {
    LoadBalancersCapability capability = author.capability();
    return service.hasLoadBalancerClass()
        ? capability.getClassesList().contains(service.getLoadBalancerClass()) : !capability.getWithoutDefaultClass();
  }

  private static Service named(Service service) {
    if (service.getUid().isEmpty()) {
      throw ProviderException.invalid("the request has no Service, or one without a UID");
    }
    return service;
  }
}
