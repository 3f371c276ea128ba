package dev.outrigger.provider;

import io.grpc.Server;
import java.nio.file.Path;
import java.time.Duration;
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
   * @throws IllegalArgumentException for an endpoint or a declaration that is not legal
   * @throws SocketException where the socket cannot be made
   */
  public static ProviderServer serve(Provider provider, String endpoint) throws InterruptedException {
    Path path = SocketFile.pathOf(endpoint);
    Core core = new Core(provider);
    Identity identity = new Identity(core);
    Server[] server = new Server[1];
    try {
      SocketFile socket = SocketFile.bound(path, hidden -> server[0] = UnixChannel.server(hidden)
          .executor(core.threads()).fallbackHandlerRegistry(Services.of(core, identity))
          .addService(new Health(core, identity))
          // gRPC's own limit has no reason of the contract, so ours is met first.
          .maxInboundMessageSize((int) Math.min(4L * provider.maxMessageBytes, Integer.MAX_VALUE))
          .permitKeepAliveTime(1, TimeUnit.SECONDS).permitKeepAliveWithoutCalls(true)
          .build().start());
      Logs.info("serving", "path", path, "provider", provider.name, "version", provider.version, "boot_id", core.bootId());
      return new ProviderServer(core, server[0], socket);
    } catch (InterruptedException | RuntimeException error) {
      if (server[0] != null) {
        server[0].shutdownNow();
      }
      core.shutdown();
      throw error;
    }
  }

  /** Whether controllers find the socket; another process may have removed or replaced it. */
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
    core.stop();
    try {
      drain();
    } catch (InterruptedException error) {
      Logs.warn("interrupted while calls were running, which are dropped");
      Thread.currentThread().interrupt();
      server.shutdownNow();
    }
    core.shutdown();
    Logs.info("stopped");
  }

  private void drain() throws InterruptedException {
    int left = core.awaitCalls(PATIENCE);
    if (left > 0) {
      Logs.info("calls are still running; their callers count as gone", "running", left);
      core.leaveAll();
      left = core.awaitCalls(GRACE);
      if (left > 0) {
        Logs.warn("calls still run and are dropped", "running", left);
      }
    }
    socket.remove();
    server.shutdown();
    if (!server.awaitTermination(HANG_UP.toMillis(), TimeUnit.MILLISECONDS)) {
      server.shutdownNow();
    }
  }
}
