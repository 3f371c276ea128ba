package example;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.outrigger.cloudprovider.v1.BatchGetInstancesRequest;
import dev.outrigger.cloudprovider.v1.InstanceResult;
import dev.outrigger.cloudprovider.v1.LoadBalancerDisposition;
import dev.outrigger.cloudprovider.v1.Node;
import dev.outrigger.cloudprovider.v1.NodeAddress;
import dev.outrigger.cloudprovider.v1.Service;
import dev.outrigger.cloudprovider.v1.ServicePort;
import dev.outrigger.provider.Answers;
import dev.outrigger.provider.Call;
import dev.outrigger.provider.Cluster;
import dev.outrigger.provider.ProviderException;
import dev.outrigger.provider.Reason;
import dev.outrigger.provider.Targets;
import dev.outrigger.provider.testing.Served;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;

/** Answers about Nodes over a socket, and about Services without one. */
class ProviderTest {
  private static final Targets TARGETS = new Targets(List.of(Node.newBuilder().setName("worker-1")
      .addAddresses(NodeAddress.newBuilder().setType("InternalIP").setAddress("10.0.0.1")).build()));

  private final Cloud cloud = new Cloud();
  private final Balancers balancers = new Balancers(cloud);
  private final Call call = Call.about(new Cluster("test", "uid-of-the-cluster"));

  private static Service.Builder service() {
    return Service.newBuilder().setUid("s-1").addIpFamilies("IPv4")
        .addPorts(ServicePort.newBuilder().setProtocol("TCP").setPort(80).setNodePort(30080));
  }

  @Test
  void machinesAreFoundByNameAndById() throws Exception {
    cloud.add(Cloud.Machine.named("worker-1"));
    try (Served served = Served.of(Main.provider(cloud))) {
      List<InstanceResult> results = served.instances().batchGetInstances(BatchGetInstancesRequest.newBuilder()
          .setContext(Served.CONTEXT).addItems(Node.newBuilder().setName("worker-1"))
          .addItems(Node.newBuilder().setName("renamed").setProviderId("example://i-13029f9e83d1"))
          .addItems(Node.newBuilder().setName("gone"))
          .addItems(Node.newBuilder().setName("foreign").setProviderId("other://x"))
          .addItems(Node.newBuilder().setName("odd").setProviderId("example://x")).build()).getResultsList();
      assertEquals("example://i-13029f9e83d1", results.get(0).getFound().getProviderId());
      assertEquals("worker-1", results.get(1).getFound().getNodeName());
      assertTrue(results.get(2).hasAbsent() && results.get(3).hasNotManaged() && results.get(4).hasError());
    }
  }

  @Test
  void aServiceGetsALoadBalancerThatFollowsItAndGoes() throws Exception {
    Service service = service().build();
    var made = balancers.ensureLoadBalancer(call, service, TARGETS);
    assertEquals(made, balancers.ensureLoadBalancer(call, service, TARGETS));
    assertEquals(made, balancers.getLoadBalancer(call, service, Optional.of(TARGETS)));
    Service changed = service().addLoadBalancerSourceRanges("192.0.2.0/24").build();
    assertEquals(LoadBalancerDisposition.LOAD_BALANCER_DISPOSITION_DIFFERS,
        balancers.getLoadBalancer(call, changed, Optional.of(TARGETS)).getDisposition());
    assertEquals(made, balancers.ensureLoadBalancer(call, changed, TARGETS));
    assertEquals(made, balancers.getLoadBalancer(call, changed, Optional.empty()));
    assertEquals(1, balancers.listLoadBalancers(call).count());
    assertEquals(Answers.ABSENT, balancers.deleteLoadBalancer(call, changed));
    assertEquals(Answers.ABSENT, balancers.getLoadBalancer(call, changed, Optional.empty()));
  }

  @Test
  void aServiceThatTheCloudCannotServeIsRefused() {
    Service sctp = service().addPorts(ServicePort.newBuilder().setProtocol("SCTP").setPort(9)).build();
    Service odd = service().putAnnotations("example.outrigger.dev/proxy-protocol", "perhaps").build();
    assertEquals(Reason.UNSUPPORTED_PROTOCOL, refusal(sctp));
    assertEquals(Reason.INVALID_ANNOTATION, refusal(odd));
  }

  private Reason refusal(Service service) {
    return assertThrows(ProviderException.class, () -> balancers.ensureLoadBalancer(call, service, TARGETS)).reason();
  }
}
