package dev.outrigger.provider;

import com.google.protobuf.Message;
import dev.outrigger.cloudprovider.v1.BatchGetInstancesRequest;
import dev.outrigger.cloudprovider.v1.BatchGetVolumesRequest;
import dev.outrigger.cloudprovider.v1.Capabilities;
import dev.outrigger.cloudprovider.v1.GetStatusRequest;
import dev.outrigger.cloudprovider.v1.HandshakeRequest;
import dev.outrigger.cloudprovider.v1.Instance;
import dev.outrigger.cloudprovider.v1.ListInstancesRequest;
import dev.outrigger.cloudprovider.v1.ListInstancesResponse;
import dev.outrigger.cloudprovider.v1.Node;
import dev.outrigger.cloudprovider.v1.SyncNodeSetRequest;
import dev.outrigger.cloudprovider.v1.Volume;
import dev.outrigger.cloudprovider.v1.VolumeTopology;
import java.util.List;
import java.util.Map;

/** Connects the methods that an author has written with those of the contract. */
final class Services {
  private Services() {}

  /** The methods that a provider serves. */
  static Rpcs of(Core core, Identity identity) {
    Provider provider = core.provider();
    Capabilities offered = core.offered();
    NodeSets nodeSets = new NodeSets();
    Rpcs rpcs = new Rpcs(core, nodeSets);
    rpcs.serve("Handshake", Rpc.<HandshakeRequest>unary((call, request) -> identity.shakeHands(request)));
    rpcs.serve("GetStatus", Rpc.<GetStatusRequest>unary((call, request) -> identity.status()));
    if (provider.instances != null) {
      Instances instances = provider.instances;
      boolean answersMany = Provider.implementsMethod(instances, Instances.class, "getInstances");
      rpcs.serve("BatchGetInstances", Rpc.<BatchGetInstancesRequest>unary(
          (call, request) -> lookUp(instances, answersMany, call, request)));
      if (offered.getInstances().getList()) {
        rpcs.<ListInstancesRequest>serve("ListInstances", (call, request, sink) -> {
          Query query = Query.of(request.getView(), request.getMaxStaleness());
          Pages.send(call, ListInstancesResponse.getDefaultInstance(), instances.listInstances(call, query), sink);
        });
      }
    }
    if (provider.loadBalancers != null) {
      // An Exchange hands the messages of an upload to the node sets.
      rpcs.<SyncNodeSetRequest>serve("SyncNodeSet", (call, request, sink) -> {});
      new LoadBalancersRpc(provider.loadBalancers, nodeSets).serve(rpcs, offered.getLoadBalancers());
    }
    if (provider.routes != null) {
      new RoutesRpc(provider.routes).serve(rpcs);
    }
    if (provider.volumes != null) {
      Volumes volumes = provider.volumes;
      boolean answersMany = Provider.implementsMethod(volumes, Volumes.class, "getVolumes");
      rpcs.serve("BatchGetVolumes", Rpc.<BatchGetVolumesRequest>unary(
          (call, request) -> lookUp(volumes, answersMany, call, request)));
    }
    return rpcs;
  }

  private static Message lookUp(
      Instances instances, boolean answersMany, Call call, BatchGetInstancesRequest request) throws Exception {
    Method method = Method.ALL.get(call.rpc());
    Results results = new Results(call, method.response(), instances);
    Query query = Query.of(request.getView(), request.getMaxStaleness());
    List<Node> nodes = request.getItemsList();
    Map<String, Outcome<Instance>> outcomes =
        answersMany
            ? instances.getInstances(call, nodes, query)
            : Each.of(call, nodes, method::key, instances.concurrency(), node -> instances.getInstance(call, node, query));
    return results.respond(nodes, method::key, outcomes);
  }

  private static Message lookUp(
      Volumes volumes, boolean answersMany, Call call, BatchGetVolumesRequest request) throws Exception {
    Method method = Method.ALL.get(call.rpc());
    Results results = new Results(call, method.response(), volumes);
    List<Volume> items = request.getItemsList();
    Map<String, Outcome<VolumeTopology>> outcomes =
        answersMany
            ? volumes.getVolumes(call, items)
            : Each.of(call, items, method::key, volumes.concurrency(), volume -> volumes.getVolume(call, volume));
    return results.respond(items, method::key, outcomes);
  }
}
