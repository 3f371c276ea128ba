package example;

import dev.outrigger.cloudprovider.v1.Instance;
import dev.outrigger.cloudprovider.v1.InstancesCapability;
import dev.outrigger.cloudprovider.v1.LookupPreference;
import dev.outrigger.cloudprovider.v1.Node;
import dev.outrigger.cloudprovider.v1.PowerState;
import dev.outrigger.provider.Call;
import dev.outrigger.provider.Instances;
import dev.outrigger.provider.Outcome;
import dev.outrigger.provider.ProviderException;
import dev.outrigger.provider.Query;
import dev.outrigger.provider.Reason;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/** Looks machines up in one call of the cloud for a whole batch. */
record Machines(Cloud cloud) implements Instances {
  private static final String SCHEME = "example://";

  @Override
  public InstancesCapability capability() {
    return InstancesCapability.newBuilder().setLookupPreference(LookupPreference.LOOKUP_PREFERENCE_BATCH).build();
  }

  @Override
  public Map<String, Outcome<Instance>> getInstances(Call call, List<Node> nodes, Query query) throws Exception {
    List<String> names = nodes.stream().filter(node -> node.getProviderId().isEmpty()).map(Node::getName).toList();
    Map<String, Cloud.Machine> byId = cloud.describeMachines(names);
    Map<String, Outcome<Instance>> outcomes = new HashMap<>();
    nodes.forEach(node -> outcomes.put(node.getName(), lookUp(node, byId)));
    return outcomes;
  }

  @Override
  public Stream<Instance> listInstances(Call call, Query query) throws Exception {
    return cloud.describeMachines(List.of()).values().stream().map(Machines::described);
  }

  private static Outcome<Instance> lookUp(Node node, Map<String, Cloud.Machine> byId) {
    String providerId = node.getProviderId();
    if (!providerId.isEmpty() && !providerId.startsWith(SCHEME)) {
      return Outcome.notManaged(providerId + " does not start with " + SCHEME);
    }
    if (!providerId.isEmpty() && !providerId.matches(SCHEME + "i-[0-9a-f]{12}")) {
      return Outcome.failed(
          new ProviderException(Reason.MALFORMED_PROVIDER_ID, providerId + " has no ID such as i-0123456789ab"));
    }
    String id = providerId.isEmpty() ? Cloud.Machine.named(node.getName()).id() : providerId.substring(SCHEME.length());
    Cloud.Machine machine = byId.get(id);
    // True since the cloud was asked during this call and shows every instance. A cache, or a cloud that shows young
    // instances late, answers notVisibleYet().
    return machine == null ? Outcome.absent() : Outcome.found(described(machine));
  }

  private static Instance described(Cloud.Machine machine) {
    Instance.Builder instance = Instance.newBuilder()
        .setProviderId(SCHEME + machine.id()).setNodeName(machine.name())
        .setPowerState(machine.isRunning() ? PowerState.POWER_STATE_RUNNING : PowerState.POWER_STATE_SHUTDOWN)
        .setInstanceType("small").setZone("zone-1").setRegion("region-1");
    instance.addAddressesBuilder().setType("InternalIP").setAddress(machine.address());
    instance.addAddressesBuilder().setType("Hostname").setAddress(machine.name());
    return instance.build();
  }
}
