package example;

import dev.outrigger.cloudprovider.v1.LoadBalancerAnswer;
import dev.outrigger.cloudprovider.v1.LoadBalancerIngress;
import dev.outrigger.cloudprovider.v1.LoadBalancersCapability;
import dev.outrigger.cloudprovider.v1.OwnedLoadBalancer;
import dev.outrigger.cloudprovider.v1.Service;
import dev.outrigger.cloudprovider.v1.ServicePort;
import dev.outrigger.cloudprovider.v1.ServiceRef;
import dev.outrigger.provider.Answers;
import dev.outrigger.provider.Call;
import dev.outrigger.provider.LoadBalancers;
import dev.outrigger.provider.ProviderException;
import dev.outrigger.provider.Reason;
import dev.outrigger.provider.Targets;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** One load balancer for each Service, found by the UIDs in its tags. */
record Balancers(Cloud cloud) implements LoadBalancers {
  static final String PREFIX = "example.outrigger.dev/";
  private static final String PROXY_PROTOCOL = PREFIX + "proxy-protocol";
  private static final String PROCESS = UUID.randomUUID().toString();

  @Override
  public LoadBalancersCapability capability() {
    // This cloud is lost with the process: another one has all ensured.
    return LoadBalancersCapability.newBuilder().setConfigurationRevision(PROCESS).build();
  }

  @Override
  public LoadBalancerAnswer getLoadBalancer(Call call, Service service, Optional<Targets> targets) throws Exception {
    Cloud.Balancer balancer = cloud.describeBalancer(tags(call, service));
    if (balancer == null) {
      return Answers.ABSENT;
    }
    Cloud.Spec wanted = spec(service, targets.map(Targets::addresses).orElse(balancer.spec().targets()));
    return wanted.equals(balancer.spec())
        ? Answers.ready(balancer.addresses()) : Answers.differs("it is " + balancer.spec() + ", and not " + wanted);
  }

  @Override
  public LoadBalancerAnswer ensureLoadBalancer(Call call, Service service, Targets targets) throws Exception {
    Cloud.Spec spec = spec(service, targets.addresses());
    Cloud.Balancer balancer = cloud.describeBalancer(tags(call, service));
    call.check();
    if (balancer == null) {
      // After a restart of this process the Service keeps the addresses of its status.
      List<String> former = service.getStatus().getIngressList().stream().map(LoadBalancerIngress::getIp).toList();
      balancer = cloud.createBalancer(tags(call, service), spec, former);
    } else if (!balancer.spec().families().equals(spec.families())) {
      throw new ProviderException(
          Reason.UNSUPPORTED_FEATURE, "this cloud cannot change the IP families of a load balancer");
    } else if (!balancer.spec().equals(spec)) {
      cloud.changeBalancer(tags(call, service), spec);
    }
    return Answers.ready(balancer.addresses());
  }

  @Override
  public LoadBalancerAnswer updateLoadBalancerNodes(Call call, Service service, Targets targets) throws Exception {
    Cloud.Balancer balancer = cloud.describeBalancer(tags(call, service));
    if (balancer == null) {
      return Answers.ABSENT;
    }
    if (!balancer.spec().targets().equals(targets.addresses())) {
      call.check();
      cloud.changeBalancer(tags(call, service), balancer.spec().withTargets(targets.addresses()));
    }
    return Answers.ready(balancer.addresses());
  }

  @Override
  public LoadBalancerAnswer deleteLoadBalancer(Call call, Service service) throws Exception {
    if (cloud.describeBalancer(tags(call, service)) != null) {
      call.check();
      cloud.deleteBalancer(tags(call, service));
    }
    return Answers.ABSENT;
  }

  @Override
  public Stream<OwnedLoadBalancer> listLoadBalancers(Call call) throws Exception {
    return cloud.describeBalancers(call.cluster().uid()).map(balancer -> OwnedLoadBalancer.newBuilder()
        .setService(ServiceRef.newBuilder().setUid(balancer.tags().service()))
        .setStatus(Answers.reachedBy(balancer.addresses())).build());
  }

  private static Cloud.Tags tags(Call call, Service service) {
    return new Cloud.Tags(call.cluster().uid(), service.getUid());
  }

  /** Refuses everything that this cloud does not have: silence would be taken for success. */
  private static Cloud.Spec spec(Service service, List<String> targets) {
    for (ServicePort port : service.getPortsList()) {
      if (!Set.of("TCP", "UDP").contains(port.getProtocol())) {
        throw new ProviderException(Reason.UNSUPPORTED_PROTOCOL,
            "port " + port.getPort() + ": no " + port.getProtocol() + ", only TCP and UDP");
      }
    }
    if (service.getSessionAffinity().equals("ClientIP") || !service.getLoadBalancerIp().isEmpty()) {
      throw new ProviderException(
          Reason.UNSUPPORTED_FEATURE, "this cloud has no session affinity and no choice of addresses");
    }
    String proxy = service.getAnnotationsOrDefault(PROXY_PROTOCOL, "false");
    if (!Set.of("true", "false").contains(proxy)) {
      throw new ProviderException(
          Reason.INVALID_ANNOTATION, PROXY_PROTOCOL + " is \"" + proxy + "\": write true or false");
    }
    Set<String> listeners = service.getPortsList().stream()
        .map(port -> port.getProtocol() + " " + port.getPort() + " to " + port.getNodePort()).collect(Collectors.toSet());
    List<String> families = service.getIpFamiliesList().isEmpty() ? List.of("IPv4") : List.copyOf(service.getIpFamiliesList());
    return new Cloud.Spec(listeners, Set.copyOf(service.getLoadBalancerSourceRangesList()),
        service.getHealthCheckNodePort(), proxy.equals("true"), families, targets);
  }
}
