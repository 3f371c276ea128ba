package dev.outrigger.provider;

import io.grpc.Context;
import io.grpc.Status;
import io.grpc.health.v1.HealthCheckRequest;
import io.grpc.health.v1.HealthCheckResponse;
import io.grpc.health.v1.HealthCheckResponse.ServingStatus;
import io.grpc.health.v1.HealthGrpc;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import java.time.Duration;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** Serves grpc.health.v1 from the provider's own status; has no state of its own. */
final class Health extends HealthGrpc.HealthImplBase {
  /** The time between two looks of a watch for a change. */
  private static final Duration INTERVAL = Duration.ofSeconds(1);

  private final Core core;
  private final Identity identity;
  private final Set<String> served;

  Health(Core core, Identity identity) {
    this.core = core;
    this.identity = identity;
    this.served = Stream.concat(Stream.of(""), Method.ALL.values().stream().map(Method::service)
        .filter(service -> isServed(core.provider(), service))).collect(Collectors.toUnmodifiableSet());
  }

  private static boolean isServed(Provider provider, String service) {
    return switch (service.substring(service.lastIndexOf('.') + 1)) {
      case "InstancesService" -> provider.instances != null;
      case "LoadBalancersService", "NodeSetsService" -> provider.loadBalancers != null;
      case "RoutesService" -> provider.routes != null;
      case "VolumesService" -> provider.volumes != null;
      default -> true;
    };
  }

  private ServingStatus status() {
    return identity.isServing() ? ServingStatus.SERVING : ServingStatus.NOT_SERVING;
  }

  /** The whole provider, or one of its services. */
  @Override
  public void check(HealthCheckRequest request, StreamObserver<HealthCheckResponse> answers) {
    if (!served.contains(request.getService())) {
      // The code that the health protocol prescribes.
      answers.onError(Status.NOT_FOUND
          .withDescription("service \"" + request.getService() + "\" is not served here").asException());
      return;
    }
    answers.onNext(HealthCheckResponse.newBuilder().setStatus(status()).build());
    answers.onCompleted();
  }

  /** Sends each change, and ends with the process: an open watch would keep the connection open. */
  @Override
  public void watch(HealthCheckRequest request, StreamObserver<HealthCheckResponse> answers) {
    // Without it an answer to a caller that has gone would throw.
    ((ServerCallStreamObserver<HealthCheckResponse>) answers).setOnCancelHandler(() -> {});
    look(request.getService(), null, Context.current(), answers);
  }

  private void look(String service, ServingStatus last, Context caller, StreamObserver<HealthCheckResponse> answers) {
    if (caller.isCancelled()) {
      return;
    }
    boolean isLast = core.isStopping();
    ServingStatus now = served.contains(service) ? status() : ServingStatus.SERVICE_UNKNOWN;
    if (now != last) {
      answers.onNext(HealthCheckResponse.newBuilder().setStatus(now).build());
    }
    if (isLast) {
      answers.onCompleted();
      return;
    }
    core.later(INTERVAL, () -> core.threads().execute(() -> look(service, now, caller, answers)));
  }
}
