package dev.outrigger.provider;

import dev.outrigger.cloudprovider.v1.*;
import java.util.Arrays;
import java.util.function.Supplier;

/** A cloud, ready to be served. A capability is offered exactly when its service is set. */
public final class Provider {
  final HandshakeResponse.Builder declaration = HandshakeResponse.newBuilder();
  Instances instances;
  LoadBalancers loadBalancers;
  Routes routes;
  Volumes volumes;
  Supplier<GetStatusResponse> status;

  private Provider() {}

  /**
   * A provider without a service.
   *
   * @param name 1 to 63 of a-z, 0-9 and '-', and never another: the controller refuses one
   * @param version for logs and metrics
   */
  public static Provider named(String name, String version) {
    return new Provider().declares(HandshakeResponse.newBuilder()
        .setProviderName(name).setProviderVersion(version).setMaxReceiveMessageBytes(4 << 20).build());
  }

  /** Serves instances. */
  public Provider instances(Instances service) {
    instances = service;
    return this;
  }

  /** Serves load balancers, and node sets with them. */
  public Provider loadBalancers(LoadBalancers service) {
    loadBalancers = service;
    return this;
  }

  /** Serves routes. */
  public Provider routes(Routes service) {
    routes = service;
    return this;
  }

  /** Serves volumes. */
  public Provider volumes(Volumes service) {
    volumes = service;
    return this;
  }

  /**
   * Declares what else the handshake has: prefixes of annotations, limits of the rate, the largest message, effects in
   * the capabilities, {@code without_cluster_id}. The capabilities of services are those of their interfaces.
   */
  public Provider declares(HandshakeResponse more) {
    declaration.mergeFrom(more);
    return this;
  }

  /**
   * How the provider and its cloud are, from what is known: it is asked every 10 s and by each probe, and must not wait.
   * Without it: DEGRADED after a call that ended with RATE_LIMITED, CREDENTIALS_INVALID or CLOUD_UNAVAILABLE, else READY.
   */
  public Provider status(Supplier<GetStatusResponse> supplier) {
    status = supplier;
    return this;
  }

  /** The handshake: the controller refuses a wrong one, and says why. */
  HandshakeResponse.Builder declared() {
    HandshakeResponse.Builder all = declaration.clone();
    Capabilities.Builder offered = all.getCapabilitiesBuilder();
    if (instances != null) {
      offered.setInstances(instances.capability().toBuilder().setList(hasMethod(instances, Instances.class, "listInstances")));
    }
    if (loadBalancers != null) {
      offered.setNodeSets(NodeSetsCapability.getDefaultInstance()).setLoadBalancers(loadBalancers.capability().toBuilder()
          .setList(hasMethod(loadBalancers, LoadBalancers.class, "listLoadBalancers"))
          .setPlan(hasMethod(loadBalancers, LoadBalancers.class, "planLoadBalancer")));
    }
    if (routes != null) {
      offered.setRoutes(routes.capability());
    }
    if (volumes != null) {
      offered.setVolumes(volumes.capability());
    }
    return all;
  }

  /** True where the author has written this optional method of a service. */
  static boolean hasMethod(Object service, Class<?> declaration, String name) {
    return Arrays.stream(service.getClass().getMethods())
        .anyMatch(method -> method.getName().equals(name) && method.getDeclaringClass() != declaration);
  }
}
