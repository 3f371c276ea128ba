package dev.outrigger.provider;

import dev.outrigger.cloudprovider.v1.*;
import io.grpc.ServerServiceDefinition;

/** Serves ProviderService: the handshake and the status, neither of which reaches the cloud. */
record Identity(Core core, Provider provider, String bootId) {
  /** The one minor revision of the contract that this package speaks. */
  private static final int MINOR = 1;

  ServerServiceDefinition service() {
    return new Methods(core, ProviderServiceGrpc.SERVICE_NAME)
        .unary(ProviderServiceGrpc.getHandshakeMethod(), (call, request) -> shakeHands(request))
        .unary(ProviderServiceGrpc.getGetStatusMethod(), (call, request) -> status())
        .build();
  }

  private HandshakeResponse shakeHands(HandshakeRequest request) {
    long least = Integer.toUnsignedLong(request.getMinMinor());
    long most = Integer.toUnsignedLong(request.getMaxMinor());
    if (least == 0 || most < least) {
      throw ProviderException.invalid("min_minor " + least + " and max_minor " + most + " are no range; send 1 <= min_minor <= max_minor");
    }
    if (least > MINOR) {
      throw new ProviderException(ErrorReason.ERROR_REASON_VERSION_UNSUPPORTED, "the controller speaks minor " + least + " to "
          + most + " of cloudprovider.v1, this provider " + MINOR + "; upgrade this provider");
    }
    Logs.info("handshake", "controller", request.getControllerName(), "controller_version", request.getControllerVersion(),
        "kubernetes_version", request.getKubernetesVersion(), "cluster", request.getCluster().getName());
    core.shakeHands(request.getCluster());
    return provider.declared().setMinor(MINOR).setBootId(bootId).build();
  }

  /** The author's status, or by how the last call has ended; one that throws is broken. */
  private GetStatusResponse status() {
    GetStatusResponse.Builder status = GetStatusResponse.newBuilder();
    try {
      status.mergeFrom(provider.status == null ? core.status : provider.status.get());
    } catch (RuntimeException error) {
      Logs.error("the provider's status has failed; reported as broken", error);
      status.setReadiness(Readiness.READINESS_BROKEN);
    }
    return status.setBootId(bootId).build();
  }

  /** The answer of grpc.health.v1. */
  boolean isServing() {
    Readiness readiness = status().getReadiness();
    return !core.isStopping && (readiness == Readiness.READINESS_READY || readiness == Readiness.READINESS_DEGRADED);
  }
}
