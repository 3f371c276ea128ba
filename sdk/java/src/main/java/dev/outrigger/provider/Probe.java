package dev.outrigger.provider;

import dev.outrigger.cloudprovider.v1.*;
import io.grpc.ManagedChannel;
import io.grpc.StatusRuntimeException;
import java.nio.file.Path;
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
  static Probe of(Path path, boolean isReadiness, int seconds) {
    // A connection of its own: an old one could hide that the process is dead.
    ManagedChannel channel = UnixChannel.to(path);
    try {
      GetStatusResponse status = ProviderServiceGrpc.newBlockingStub(channel)
          .withDeadlineAfter(seconds, TimeUnit.SECONDS).getStatus(GetStatusRequest.getDefaultInstance());
      Readiness readiness = status.getReadiness();
      String because = status.getDependenciesList().stream()
          .filter(each -> each.getReadiness() != Readiness.READINESS_READY)
          .map(each -> ": " + each.getName() + " (" + each.getMessage() + ")").collect(Collectors.joining());
      return new Probe(readiness != Readiness.READINESS_BROKEN && !(isReadiness && readiness == Readiness.READINESS_STARTING),
          "the provider at unix://" + path + " is "
              + readiness.name().replace("READINESS_", "").toLowerCase(Locale.ROOT) + because);
    } catch (StatusRuntimeException error) {
      return new Probe(false, "the provider at unix://" + path + " does not answer: " + error.getStatus());
    } finally {
      channel.shutdownNow();
    }
  }
}
