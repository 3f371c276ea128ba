package provider;

import dev.outrigger.cloudprovider.v1.ErrorReason;
import dev.outrigger.cloudprovider.v1.Instance;
import dev.outrigger.cloudprovider.v1.InstanceResult;
import dev.outrigger.cloudprovider.v1.Node;
import dev.outrigger.cloudprovider.v1.PowerState;
import dev.outrigger.provider.Call;
import dev.outrigger.provider.Instances;
import dev.outrigger.provider.Lookup;
import dev.outrigger.provider.ProviderException;
import dev.outrigger.provider.Query;
import java.util.Map;

/** Looks up three machines. Replace them by calls to your cloud. */
final class Machines implements Instances {
  static final String SCHEME = "my-cloud://";
  private static final Map<String, Machine> MACHINES = Map.of(
      "node-1", new Machine("10.0.0.1", true),
      "node-2", new Machine("10.0.0.2", true),
      "node-3", new Machine("10.0.0.3", false));

  private record Machine(String address, boolean isRunning) {}

  @Override
  public InstanceResult getInstance(Call call, Node node, Query query) {
    String providerId = node.getProviderId();
    if (!providerId.isEmpty() && !providerId.startsWith(SCHEME)) {
      return Lookup.notManaged(providerId + " is another cloud's");
    }
    String name = providerId.isEmpty() ? node.getName() : providerId.substring(SCHEME.length());
    if (!name.matches("[a-z0-9-]+")) {
      throw new ProviderException(
          ErrorReason.ERROR_REASON_MALFORMED_PROVIDER_ID, providerId + " is no ID of this cloud");
    }
    Machine machine = MACHINES.get(name);
    if (machine == null) {
      // The controller may delete the Node. The cloud was asked during this call and showed everything.
      return Lookup.absent();
    }
    Instance.Builder instance = Instance.newBuilder().setProviderId(SCHEME + name)
        .setPowerState(machine.isRunning() ? PowerState.POWER_STATE_RUNNING : PowerState.POWER_STATE_SHUTDOWN);
    instance.addAddressesBuilder().setType("InternalIP").setAddress(machine.address());
    return Lookup.found(instance.build());
  }
}
