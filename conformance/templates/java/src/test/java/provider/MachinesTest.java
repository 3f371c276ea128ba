package provider;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.outrigger.cloudprovider.v1.ClusterInfo;
import dev.outrigger.cloudprovider.v1.ErrorReason;
import dev.outrigger.cloudprovider.v1.InstanceResult;
import dev.outrigger.cloudprovider.v1.InstanceView;
import dev.outrigger.cloudprovider.v1.Node;
import dev.outrigger.cloudprovider.v1.PowerState;
import dev.outrigger.provider.Call;
import dev.outrigger.provider.ProviderException;
import dev.outrigger.provider.Query;
import java.time.Duration;
import org.junit.jupiter.api.Test;

/** Answers about Nodes. */
class MachinesTest {
  private static InstanceResult lookUp(String name, String providerId) {
    Call call = Call.about(ClusterInfo.newBuilder().setName("test").setUid("uid-of-the-cluster").build());
    Query query = new Query(InstanceView.INSTANCE_VIEW_FULL, Duration.ZERO);
    return new Machines().getInstance(call, Node.newBuilder().setName(name).setProviderId(providerId).build(), query);
  }

  @Test
  void aMachineIsFoundByNameAndById() {
    assertEquals(Machines.SCHEME + "node-1", lookUp("node-1", "").getFound().getProviderId());
    InstanceResult stopped = lookUp("renamed", Machines.SCHEME + "node-3");
    assertEquals(PowerState.POWER_STATE_SHUTDOWN, stopped.getFound().getPowerState());
  }

  @Test
  void whatIsNoMachineIsToldApart() {
    assertTrue(lookUp("gone", "").hasAbsent());
    assertTrue(lookUp("foreign", "other-cloud://i-1").hasNotManaged());
    ProviderException malformed =
        assertThrows(ProviderException.class, () -> lookUp("malformed", Machines.SCHEME + "not an id"));
    assertEquals(ErrorReason.ERROR_REASON_MALFORMED_PROVIDER_ID, malformed.reason);
  }
}
