package dev.outrigger.provider;

import dev.outrigger.cloudprovider.v1.Capabilities;
import dev.outrigger.cloudprovider.v1.EffectsCapability;
import dev.outrigger.cloudprovider.v1.GetStatusResponse;
import dev.outrigger.cloudprovider.v1.RateLimit;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.function.Supplier;

/** A cloud, ready to be served. A capability is offered exactly when its service is set. */
public final class Provider {
  private static final int DEFAULT_BATCH = 100;

  final String name;
  final String version;
  Instances instances;
  LoadBalancers loadBalancers;
  Routes routes;
  Volumes volumes;
  boolean withoutClusterId;
  List<String> serviceAnnotationPrefixes = List.of();
  List<String> nodeAnnotationPrefixes = List.of();
  List<RateLimit> rateLimits = List.of();
  EffectsCapability effects;
  Supplier<GetStatusResponse> status;
  int maxMessageBytes = Core.DEFAULT_MESSAGE_BYTES;

  private Provider(String name, String version) {
    this.name = name;
    this.version = version;
  }

  /**
   * A provider without a service.
   *
   * @param name 1 to 63 of a-z, 0-9 and '-', and never another: the controller refuses one
   * @param version for logs and metrics
   */
  public static Provider named(String name, String version) {
    return new Provider(name, version);
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
   * The cloud has no cluster ID that separates the resources of two clusters, or resources are left untagged. The
   * controller then refuses to run without {@code --allow-untagged-cloud}. Otherwise a call about load balancers or
   * routes whose cluster has no UID is refused.
   */
  public Provider withoutClusterId() {
    withoutClusterId = true;
    return this;
  }

  /** Prefixes of the annotations of Services that the provider reads: they alone are sent, and cause a call by a change. None: all. */
  public Provider serviceAnnotationPrefixes(String... prefixes) {
    serviceAnnotationPrefixes = List.of(prefixes);
    return this;
  }

  /** The same for Nodes. None: none. {@code "*"}: all. */
  public Provider nodeAnnotationPrefixes(String... prefixes) {
    nodeAnnotationPrefixes = List.of(prefixes);
    return this;
  }

  /** Limits of the cloud; the controller stays below. */
  public Provider rateLimits(RateLimit... limits) {
    rateLimits = List.of(limits);
    return this;
  }

  /** Effects that answers may have in Kubernetes. */
  public Provider effects(EffectsCapability capability) {
    effects = capability;
    return this;
  }

  /**
   * How the provider and its cloud are, from what is known: it is asked every 10 s and by each probe, must not wait, and
   * the server fills in the boot ID. Without it the provider is always ready. {@link Dependencies#status} can be it.
   */
  public Provider status(Supplier<GetStatusResponse> supplier) {
    status = supplier;
    return this;
  }

  /** The largest message that is accepted, in bytes: 1 MiB to 1 GiB. The default is 4 MiB. */
  public Provider maxMessageBytes(int bytes) {
    maxMessageBytes = bytes;
    return this;
  }

  /**
   * The capabilities that are offered, with what follows from the methods that there are.
   *
   * @throws IllegalArgumentException for a declaration that the controller would refuse: its author sees it here
   */
  Capabilities capabilities() {
    require(name.matches("[a-z0-9-]{1,63}"), "the name \"" + name + "\" is not legal: use 1 to 63 of a-z, 0-9 and '-'");
    require(maxMessageBytes >= 1 << 20 && maxMessageBytes <= 1 << 30,
        "maxMessageBytes is " + maxMessageBytes + ": use 1 MiB to 1 GiB");
    entries("service_annotation_prefixes", serviceAnnotationPrefixes);
    entries("node_annotation_prefixes", nodeAnnotationPrefixes);
    Capabilities.Builder offered = Capabilities.newBuilder();
    if (effects != null) {
      offered.setEffects(effects);
    }
    if (instances != null) {
      oneOf(instances, Instances.class, "getInstance", "getInstances");
      var capability = offered.getInstancesBuilder().mergeFrom(instances.capability());
      capability.setList(implementsMethod(instances, Instances.class, "listInstances"));
      capability.setMaxBatchSize(limit("instances.max_batch_size", capability.getMaxBatchSize(), DEFAULT_BATCH, 500));
      entries("instances.provider_id_prefixes", capability.getProviderIdPrefixesList());
      entries("instances.managed_label_keys", capability.getManagedLabelKeysList());
    }
    if (loadBalancers != null) {
      offered.getNodeSetsBuilder().setDeltas(true);
      var capability = offered.getLoadBalancersBuilder().mergeFrom(loadBalancers.capability());
      capability.setList(implementsMethod(loadBalancers, LoadBalancers.class, "listLoadBalancers"));
      capability.setPlan(implementsMethod(loadBalancers, LoadBalancers.class, "planLoadBalancer"));
      capability.setMaxServicesPerUpdate(
          limit("load_balancers.max_services_per_update", capability.getMaxServicesPerUpdate(), DEFAULT_BATCH, 200));
      limit("load_balancers.max_in_flight", capability.getMaxInFlight(), 0, 256);
      require(!capability.getWithoutDefaultClass() || capability.getClassesCount() > 0,
          "load_balancers.without_default_class without classes serves no Service at all");
      int size = capability.getConfigurationRevision().getBytes(StandardCharsets.UTF_8).length;
      require(size <= 64, "load_balancers.configuration_revision has " + size + " bytes: use at most 64");
      entries("load_balancers.classes", capability.getClassesList());
    }
    if (routes != null) {
      oneOf(routes, Routes.class, "createRoute", "createRoutes");
      oneOf(routes, Routes.class, "deleteRoute", "deleteRoutes");
      var capability = offered.getRoutesBuilder().mergeFrom(routes.capability());
      capability.setMaxBatchSize(limit("routes.max_batch_size", capability.getMaxBatchSize(), DEFAULT_BATCH, 500));
      limit("routes.max_in_flight", capability.getMaxInFlight(), 0, 64);
    }
    if (volumes != null) {
      oneOf(volumes, Volumes.class, "getVolume", "getVolumes");
      var capability = offered.getVolumesBuilder().mergeFrom(volumes.capability());
      capability.setMaxBatchSize(limit("volumes.max_batch_size", capability.getMaxBatchSize(), DEFAULT_BATCH, 500));
      limit("volumes.max_in_flight", capability.getMaxInFlight(), 0, 64);
      entries("volumes.csi_drivers", capability.getCsiDriversList());
    }
    return offered.build();
  }

  /** Whether the author has written this method of a service. */
  static boolean implementsMethod(Object service, Class<?> declaration, String method) {
    Class<?>[] parameters = Arrays.stream(declaration.getMethods()).filter(each -> each.getName().equals(method))
        .findFirst().orElseThrow().getParameterTypes();
    try {
      return service.getClass().getMethod(method, parameters).getDeclaringClass() != declaration;
    } catch (NoSuchMethodException error) {
      throw new IllegalStateException("each service has the methods of its interface", error);
    }
  }

  private static void oneOf(Object service, Class<?> declaration, String one, String many) {
    require(implementsMethod(service, declaration, one) || implementsMethod(service, declaration, many),
        service.getClass().getSimpleName() + " has neither " + one + " nor " + many + ": implement one of them");
  }

  private static int limit(String field, int value, int otherwise, int most) {
    require(value >= 0 && value <= most, field + " is " + Integer.toUnsignedString(value) + ": use at most " + most);
    return value == 0 ? otherwise : value;
  }

  private static void entries(String field, List<String> entries) {
    require(entries.size() <= 64, field + " has " + entries.size() + " entries: use at most 64");
    entries.forEach(entry -> require(entry.matches("[!-~]{1,253}"),
        field + " has \"" + entry + "\": use 1 to 253 visible ASCII characters"));
  }

  private static void require(boolean holds, String text) {
    if (!holds) {
      throw new IllegalArgumentException(text);
    }
  }
}
