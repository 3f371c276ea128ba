package dev.outrigger.provider;

import dev.outrigger.cloudprovider.v1.DependencyStatus;
import dev.outrigger.cloudprovider.v1.GetStatusResponse;
import dev.outrigger.cloudprovider.v1.HandshakeRequest;
import dev.outrigger.cloudprovider.v1.HandshakeResponse;
import dev.outrigger.cloudprovider.v1.QuotaStatus;
import dev.outrigger.cloudprovider.v1.Readiness;
import java.util.List;

/** Serves ProviderService: the handshake and the status, neither of which reaches the cloud. */
final class Identity {
  private static final int MOST_ENTRIES = 32;

  private final Core core;

  Identity(Core core) {
    this.core = core;
  }

  /** Opens calls about a cluster. */
  HandshakeResponse shakeHands(HandshakeRequest request) {
    long least = Integer.toUnsignedLong(request.getMinMinor());
    long most = Integer.toUnsignedLong(request.getMaxMinor());
    if (least == 0 || most < least) {
      throw new ProviderException(Reason.INVALID_REQUEST, "min_minor " + least + " and max_minor " + most
          + " are no range; send 1 <= min_minor <= max_minor");
    }
    if (least > Method.MINOR || most < Method.MINOR) {
      throw new ProviderException(Reason.VERSION_UNSUPPORTED, "the controller speaks minor " + least + " to " + most
          + " of cloudprovider.v1, this provider " + Method.MINOR + " to " + Method.MINOR + "; upgrade the older of them");
    }
    Logs.info("handshake", "controller", Statuses.cut(request.getControllerName(), 253),
        "controller_version", Statuses.cut(request.getControllerVersion(), 253),
        "kubernetes_version", Statuses.cut(request.getKubernetesVersion(), 253), "cluster", request.getCluster().getName());
    core.shakeHands(request.getCluster(), request.getMaxReceiveMessageBytes());
    Provider provider = core.provider();
    return HandshakeResponse.newBuilder().setMinor(Method.MINOR)
        .setProviderName(provider.name).setProviderVersion(provider.version).setBootId(core.bootId())
        .setCapabilities(core.offered()).setWithoutClusterId(provider.withoutClusterId)
        .addAllServiceAnnotationPrefixes(provider.serviceAnnotationPrefixes)
        .addAllNodeAnnotationPrefixes(provider.nodeAnnotationPrefixes)
        .setMaxReceiveMessageBytes(provider.maxMessageBytes).addAllRateLimits(provider.rateLimits).build();
  }

  /** The author's status within the limits of the contract; one that throws is broken. */
  GetStatusResponse status() {
    GetStatusResponse.Builder status = GetStatusResponse.newBuilder();
    if (core.provider().status == null) {
      status.setReadiness(Readiness.READINESS_READY);
    } else {
      try {
        status.mergeFrom(core.provider().status.get());
      } catch (RuntimeException error) {
        Logs.error("the provider's status has failed; reported as broken", error);
        status.clear().setReadiness(Readiness.READINESS_BROKEN);
      }
    }
    List<DependencyStatus> dependencies = status.getDependenciesList().stream().limit(MOST_ENTRIES)
        .map(each -> each.toBuilder()
            .setName(Statuses.cut(each.getName(), 63)).setMessage(Statuses.cut(each.getMessage())).build()).toList();
    List<QuotaStatus> quotas = status.getQuotasList().stream().limit(MOST_ENTRIES)
        .map(each -> each.toBuilder().setName(Statuses.cut(each.getName(), 63)).build()).toList();
    return status.setBootId(core.bootId()).clearDependencies().addAllDependencies(dependencies)
        .clearQuotas().addAllQuotas(quotas).build();
  }

  /** The answer of grpc.health.v1. */
  boolean isServing() {
    Readiness readiness = status().getReadiness();
    return !core.isStopping()
        && (readiness == Readiness.READINESS_READY || readiness == Readiness.READINESS_DEGRADED);
  }
}
