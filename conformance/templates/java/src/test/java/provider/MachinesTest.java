package provider;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.outrigger.cloudprovider.v1.BatchGetInstancesRequest;
import dev.outrigger.cloudprovider.v1.InstanceResult;
import dev.outrigger.cloudprovider.v1.Node;
import dev.outrigger.cloudprovider.v1.PowerState;
import dev.outrigger.provider.Provider;
import dev.outrigger.provider.testing.Served;
import org.junit.jupiter.api.Test;

/** Answers about Nodes, over a socket. */
class MachinesTest {
  private static InstanceResult lookUp(String name, String providerId) throws Exception {
    Node node = Node.newBuilder().setName(name).setProviderId(providerId).build();
    try (Served served = Served.of(Provider.named("my-cloud", "0.1.0").instances(new Machines()))) {
      return served.instances().batchGetInstances(
          BatchGetInstancesRequest.newBuilder().setContext(Served.CONTEXT).addItems(node).build()).getResults(0);
    }
  }

  @Test
  void aMachineIsFoundByNameAndById() throws Exception {
    assertEquals(Machines.SCHEME + "node-1", lookUp("node-1", "").getFound().getProviderId());
    InstanceResult stopped = lookUp("renamed", Machines.SCHEME + "node-3");
    assertEquals(PowerState.POWER_STATE_SHUTDOWN, stopped.getFound().getPowerState());
  }

  @Test
  void whatIsNoMachineIsToldApart() throws Exception {
    assertTrue(lookUp("gone", "").hasAbsent());
    assertTrue(lookUp("foreign", "other-cloud://i-1").hasNotManaged());
    assertTrue(lookUp("malformed", Machines.SCHEME + "not an id").hasError());
  }
}
