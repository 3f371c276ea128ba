package dev.outrigger.provider;

import dev.outrigger.cloudprovider.v1.VolumesServiceGrpc;
import io.grpc.Server;
import io.grpc.health.v1.HealthCheckResponse.ServingStatus;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.protobuf.services.HealthStatusManager;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.UUID;
import java.util.concurrent.TimeUnit;

/**
 * A provider that is served, from its socket to its graceful end. {@link ProviderMain} does all of this; it is for
 * programs that do more than serve, and for tests.
 */
public final class ProviderServer implements AutoCloseable {
  // Together less than the 30 s that Kubernetes gives a Pod: calls end by themselves, then their callers count as gone,
  // then answers are read.
  private static final Duration PATIENCE = Duration.ofSeconds(20);
  private static final Duration GRACE = Duration.ofSeconds(5);
  private static final Duration HANG_UP = Duration.ofSeconds(2);

  private final Core core;
  private final Server server;
  private final SocketFile socket;

  private ProviderServer(Core core, Server server, SocketFile socket) {
    this.core = core;
    this.server = server;
    this.socket = socket;
  }

  /**
   * Serves a provider at {@code unix:///absolute/path}. The socket appears with mode 0660 once calls are answered.
   *
   * @throws IllegalArgumentException for an endpoint that is not legal
   * @throws IOException where the socket cannot be made
   */
  public static ProviderServer serve(Provider provider, String endpoint) throws IOException {
    Path path = SocketFile.pathOf(endpoint);
    Core core = new Core();
    Identity identity = new Identity(core, provider, UUID.randomUUID().toString());
    HealthStatusManager health = new HealthStatusManager();
    Server[] server = new Server[1];
    SocketFile socket = SocketFile.bound(path, hidden ->
        server[0] = withServices(UnixChannel.server(hidden), core, identity, provider).addService(health.getHealthService())
            .executor(core.threads).maxInboundMessageSize((int) provider.declaration.getMaxReceiveMessageBytes()).build().start());
    core.timer.scheduleAtFixedRate(() -> server[0].getServices().forEach(service -> {
      ServingStatus status = identity.isServing() ? ServingStatus.SERVING : ServingStatus.NOT_SERVING;
      health.setStatus(service.getServiceDescriptor().getName(), status);
      health.setStatus(HealthStatusManager.SERVICE_NAME_ALL_SERVICES, status);
    }), 0, 1, TimeUnit.SECONDS);
    Logs.info("serving", "path", path, "provider", provider.declaration.getProviderName(),
        "version", provider.declaration.getProviderVersion(), "boot_id", identity.bootId());
    return new ProviderServer(core, server[0], socket);
  }

  private static NettyServerBuilder withServices(NettyServerBuilder server, Core core, Identity identity, Provider provider) {
    server.addService(identity.service());
    if (provider.instances != null) {
      server.addService(InstancesRpc.of(core, provider.instances));
    }
    if (provider.loadBalancers != null) {
      NodeSets nodeSets = new NodeSets(core);
      server.addService(nodeSets).addService(LoadBalancersRpc.of(core, provider.loadBalancers, nodeSets));
    }
    if (provider.routes != null) {
      server.addService(RoutesRpc.of(core, provider.routes));
    }
    if (provider.volumes != null) {
      server.addService(new Methods(core, VolumesServiceGrpc.SERVICE_NAME).unary(VolumesServiceGrpc.getGetVolumeMethod(),
          (call, request) -> provider.volumes.getVolume(call, request.getVolume())).build());
    }
    return server;
  }

  /** True while controllers find the socket: another process may have removed or replaced it. */
  public boolean isReachable() {
    return socket.isThere();
  }

  /**
   * Ends: new calls get SHUTTING_DOWN, and running ones have 20 s to end and 5 s more once their callers count as gone.
   * A GOAWAY comes last, since a controller would begin no call on the connection from then on. An interrupt ends it
   * without waiting.
   */
  @Override
  public void close() {
    try {
      core.drain(PATIENCE, GRACE);
      socket.remove();
      server.shutdown();
      server.awaitTermination(HANG_UP.toMillis(), TimeUnit.MILLISECONDS);
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
    } catch (IOException error) {
      Logs.error("the socket cannot be removed", error);
    }
    server.shutdownNow();
    core.threads.shutdownNow();
    core.timer.shutdownNow();
    Logs.info("stopped");
  }
}
