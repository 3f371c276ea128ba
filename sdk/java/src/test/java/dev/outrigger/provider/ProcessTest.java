package dev.outrigger.provider;

import static dev.outrigger.provider.Fixtures.await;
import static dev.outrigger.provider.Fixtures.lookup;
import static dev.outrigger.provider.Fixtures.reason;
import static dev.outrigger.provider.Fixtures.refusal;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.outrigger.cloudprovider.v1.BatchGetInstancesResponse;
import dev.outrigger.cloudprovider.v1.ClusterInfo;
import dev.outrigger.cloudprovider.v1.HandshakeRequest;
import dev.outrigger.cloudprovider.v1.InstancesServiceGrpc;
import dev.outrigger.cloudprovider.v1.ProviderServiceGrpc;
import io.grpc.ManagedChannel;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** The command line of a provider, its signals and its exit codes. */
@Timeout(90)
class ProcessTest {
  @TempDir
  Path folder;

  private Path path;
  private Path log;
  private ManagedChannel channel;
  private final List<Process> processes = new ArrayList<>();

  @BeforeEach
  void begin() {
    path = folder.resolve("provider.sock");
    log = folder.resolve("log");
    channel = UnixChannel.to(path);
  }

  @AfterEach
  void end() {
    channel.shutdownNow();
    processes.forEach(Process::destroyForcibly);
  }

  private Process start(String... arguments) throws IOException {
    List<String> command = new ArrayList<>(List.of(Path.of(System.getProperty("java.home"), "bin/java").toString(),
        "-XX:TieredStopAtLevel=1", "-cp", System.getProperty("java.class.path"), Program.class.getName()));
    command.addAll(List.of(arguments));
    ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true)
        .redirectOutput(ProcessBuilder.Redirect.appendTo(log.toFile()));
    builder.environment().put("CLOUDPROVIDER_ENDPOINT", "unix://" + path);
    Process process = builder.start();
    processes.add(process);
    return process;
  }

  private Process serving() throws IOException, InterruptedException {
    Process process = start();
    await(() -> Files.exists(path));
    ProviderServiceGrpc.newBlockingStub(channel).withWaitForReady().withDeadlineAfter(20, TimeUnit.SECONDS)
        .handshake(HandshakeRequest.newBuilder().setMinMinor(1).setMaxMinor(1).setCluster(ClusterInfo.newBuilder()
            .setName(Served.CONTEXT.getClusterName()).setUid(Served.CONTEXT.getClusterUid())).build());
    return process;
  }

  private BatchGetInstancesResponse look(String name) {
    return InstancesServiceGrpc.newBlockingStub(channel).batchGetInstances(lookup(name));
  }

  private void logHas(String text) throws InterruptedException {
    await(() -> {
      try {
        return Files.readString(log).contains(text);
      } catch (IOException error) {
        return false;
      }
    });
  }

  private void endsWith(int code, Process process, String text) throws Exception {
    assertTrue(process.waitFor(60, TimeUnit.SECONDS));
    assertEquals(code, process.exitValue(), Files.readString(log));
    assertTrue(Files.readString(log).contains(text), Files.readString(log));
  }

  @Test
  void aSignalLetsACallEndThatRunsAndRefusesNewOnes() throws Exception {
    Process process = serving();
    Future<BatchGetInstancesResponse> slow = InstancesServiceGrpc.newFutureStub(channel).batchGetInstances(lookup("slow"));
    look("a");
    process.destroy();
    logHas("\"stopping\"");
    await(() -> {
      try {
        look("a");
        return false;
      } catch (io.grpc.StatusRuntimeException error) {
        return true;
      }
    });
    assertEquals("SHUTTING_DOWN", reason(refusal(() -> look("a"))));
    Files.writeString(Path.of(path + ".released"), "");
    assertEquals(1, slow.get(20, TimeUnit.SECONDS).getResultsCount());
    endsWith(0, process, "\"stopped\"");
    assertFalse(Files.exists(path));
  }

  @Test
  void aSecondSignalEndsTheProcessImmediately() throws Exception {
    Process process = serving();
    InstancesServiceGrpc.newFutureStub(channel).batchGetInstances(lookup("slow"));
    look("a");
    process.destroy();
    logHas("\"stopping\"");
    process.destroy();
    endsWith(1, process, "stopping");
  }

  @Test
  void aProbeAsksTheProcessThatServes() throws Exception {
    endsWith(1, start("probe"), "does not answer");
    Process process = serving();
    endsWith(0, start("probe", "--ready"), "is ready");
    endsWith(1, start(), "another process serves");
    look("a");
    Files.delete(path);
    endsWith(1, process, "the socket was removed or replaced");
  }

  @Test
  void anArgumentThatHasNoMeaningEndsWith2() throws Exception {
    endsWith(2, start("--endpont=unix:///x"), "unknown argument \"--endpont=unix:///x\"");
    endsWith(2, start("--endpoint"), "--endpoint has no value");
    endsWith(2, start("probe", "--timeout=0"), "--timeout is 0; use 1 to 60 seconds");
    endsWith(2, start("--endpoint=/x"), "write unix:///absolute/path/of.sock");
  }

  @Test
  void aProviderThatCannotBeMadeOrServedEndsWith1AndSaysWhy() throws Exception {
    endsWith(1, start("throws"), "the cloud has no such account");
    Files.writeString(path, "mine");
    endsWith(1, start(), "is not a socket; remove it or choose another endpoint");
    path = Path.of("/proc/no/rights/provider.sock");
    endsWith(1, start(), "cannot serve at /proc/no/rights/provider.sock");
  }
}
