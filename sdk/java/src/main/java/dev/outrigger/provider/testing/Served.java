package dev.outrigger.provider.testing;

import dev.outrigger.cloudprovider.v1.CallContext;
import dev.outrigger.cloudprovider.v1.ClusterInfo;
import dev.outrigger.cloudprovider.v1.HandshakeRequest;
import dev.outrigger.cloudprovider.v1.InstancesServiceGrpc;
import dev.outrigger.cloudprovider.v1.LoadBalancersServiceGrpc;
import dev.outrigger.cloudprovider.v1.ProviderServiceGrpc;
import dev.outrigger.cloudprovider.v1.RoutesServiceGrpc;
import dev.outrigger.cloudprovider.v1.VolumesServiceGrpc;
import dev.outrigger.provider.Provider;
import dev.outrigger.provider.ProviderServer;
import dev.outrigger.provider.UnixChannel;
import io.grpc.ManagedChannel;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** A provider in a temporary folder, and clients of it. */
public final class Served implements AutoCloseable {
  /** The context of a call about the cluster that has shaken hands. */
  public static final CallContext CONTEXT =
      CallContext.newBuilder().setRequestId("r-1").setClusterName("test").setClusterUid("uid-of-the-cluster").build();

  private final Path folder;
  private final ProviderServer server;
  private final ManagedChannel channel;

  private Served(Path folder, ProviderServer server, ManagedChannel channel) {
    this.folder = folder;
    this.server = server;
    this.channel = channel;
  }

  /** Serves, and shakes hands about the cluster of {@link #CONTEXT}. */
  public static Served of(Provider provider) throws IOException, InterruptedException {
    Served served = withoutHandshake(provider);
    served.shakeHands();
    return served;
  }

  /** Serves. */
  public static Served withoutHandshake(Provider provider) throws IOException, InterruptedException {
    Path folder = Files.createTempDirectory("provider-");
    Path path = folder.resolve("provider.sock");
    return new Served(folder, ProviderServer.serve(provider, "unix://" + path), UnixChannel.to(path));
  }

  /** Opens calls about the cluster of {@link #CONTEXT}. */
  public void shakeHands() {
    ClusterInfo cluster =
        ClusterInfo.newBuilder().setName(CONTEXT.getClusterName()).setUid(CONTEXT.getClusterUid()).build();
    provider().handshake(HandshakeRequest.newBuilder().setMinMinor(1).setMaxMinor(1).setCluster(cluster).build());
  }

  /** The connection. */
  public ManagedChannel channel() {
    return channel;
  }

  /** Where it serves. */
  public Path path() {
    return folder.resolve("provider.sock");
  }

  /** Calls of ProviderService. */
  public ProviderServiceGrpc.ProviderServiceBlockingStub provider() {
    return ProviderServiceGrpc.newBlockingStub(channel);
  }

  /** Calls of InstancesService. */
  public InstancesServiceGrpc.InstancesServiceBlockingStub instances() {
    return InstancesServiceGrpc.newBlockingStub(channel);
  }

  /** Calls of LoadBalancersService. */
  public LoadBalancersServiceGrpc.LoadBalancersServiceBlockingStub loadBalancers() {
    return LoadBalancersServiceGrpc.newBlockingStub(channel);
  }

  /** Calls of RoutesService. */
  public RoutesServiceGrpc.RoutesServiceBlockingStub routes() {
    return RoutesServiceGrpc.newBlockingStub(channel);
  }

  /** Calls of VolumesService. */
  public VolumesServiceGrpc.VolumesServiceBlockingStub volumes() {
    return VolumesServiceGrpc.newBlockingStub(channel);
  }

  /** Ends the provider as a signal would. */
  public void end() {
    server.close();
  }

  /** Ends the provider, and closes the connection. */
  @Override
  public void close() throws IOException {
    end();
    channel.shutdownNow();
    Files.deleteIfExists(folder);
  }
}
