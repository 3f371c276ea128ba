package dev.outrigger.provider;

import dev.outrigger.cloudprovider.v1.GetStatusRequest;
import dev.outrigger.cloudprovider.v1.GetStatusResponse;
import dev.outrigger.cloudprovider.v1.ProviderServiceGrpc;
import dev.outrigger.cloudprovider.v1.Readiness;
import io.grpc.ManagedChannel;
import io.grpc.StatusRuntimeException;
import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.SocketChannel;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Locale;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;

/**
 * Asks a running provider how it is: a kubelet cannot reach a Unix socket, so a probe is a command.
 *
 * @param succeeds it answers and is not broken; for readiness, it is not starting either
 * @param sentence for an operator
 */
record Probe(boolean succeeds, String sentence) {
  static Probe of(Path path, boolean isReadiness, Duration patience) {
    // First, so that a missing socket is not reported as an answer of the provider.
    try (SocketChannel client = SocketChannel.open(StandardProtocolFamily.UNIX)) {
      client.configureBlocking(false);
      client.connect(UnixDomainSocketAddress.of(path));
    } catch (IOException error) {
      return new Probe(false, "no provider serves unix://" + path + ": " + error.getMessage());
    }
    // A connection of its own: an old one could hide that the process is dead.
    ManagedChannel channel = UnixChannel.to(path);
    try {
      GetStatusResponse status = ProviderServiceGrpc.newBlockingStub(channel)
          .withDeadlineAfter(patience.toMillis(), TimeUnit.MILLISECONDS).getStatus(GetStatusRequest.getDefaultInstance());
      return read(path, status, isReadiness);
    } catch (StatusRuntimeException error) {
      return new Probe(false, "the provider at unix://" + path + " does not answer: " + error.getStatus().getCode()
          + ": " + error.getStatus().getDescription());
    } finally {
      channel.shutdownNow();
    }
  }

  private static Probe read(Path path, GetStatusResponse status, boolean isReadiness) {
    Readiness readiness = status.getReadiness();
    boolean fails = readiness == Readiness.READINESS_BROKEN
        || isReadiness && readiness == Readiness.READINESS_STARTING;
    String because = status.getDependenciesList().stream()
        .filter(each -> each.getReadiness() != Readiness.READINESS_READY)
        .map(each -> each.getName() + " (" + each.getMessage() + ")").collect(Collectors.joining(", "));
    String name = readiness.name().replace("READINESS_", "").toLowerCase(Locale.ROOT);
    return new Probe(!fails,
        "the provider at unix://" + path + " is " + name + (because.isEmpty() ? "" : ": ") + because);
  }
}
