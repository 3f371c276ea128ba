package dev.outrigger.provider;

import dev.outrigger.cloudprovider.v1.*;
import io.grpc.ManagedChannel;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** A provider in a temporary folder, and a connection to it. */
final class Served implements AutoCloseable {
  /** The context of a call about the cluster that has shaken hands. */
  static final CallContext CONTEXT =
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
  static Served of(Provider provider) throws IOException, InterruptedException {
    Served served = withoutHandshake(provider);
    ClusterInfo cluster = ClusterInfo.newBuilder().setName(CONTEXT.getClusterName()).setUid(CONTEXT.getClusterUid()).build();
    ProviderServiceGrpc.newBlockingStub(served.channel)
        .handshake(HandshakeRequest.newBuilder().setMinMinor(1).setMaxMinor(1).setCluster(cluster).build());
    return served;
  }

  /** Serves. */
  static Served withoutHandshake(Provider provider) throws IOException, InterruptedException {
    Path folder = Files.createTempDirectory("provider-");
    Path path = folder.resolve("provider.sock");
    return new Served(folder, ProviderServer.serve(provider, "unix://" + path), UnixChannel.to(path));
  }

  /** The connection, for the stubs of the contract's services. */
  ManagedChannel channel() {
    return channel;
  }

  /** Calls of InstancesService. */
  InstancesServiceGrpc.InstancesServiceBlockingStub instances() {
    return InstancesServiceGrpc.newBlockingStub(channel);
  }

  /** Calls of ProviderService. */
  ProviderServiceGrpc.ProviderServiceBlockingStub provider() {
    return ProviderServiceGrpc.newBlockingStub(channel);
  }

  /** Calls of LoadBalancersService. */
  LoadBalancersServiceGrpc.LoadBalancersServiceBlockingStub loadBalancers() {
    return LoadBalancersServiceGrpc.newBlockingStub(channel);
  }

  /** Calls of RoutesService. */
  RoutesServiceGrpc.RoutesServiceBlockingStub routes() {
    return RoutesServiceGrpc.newBlockingStub(channel);
  }

  /** Ends the provider as a signal would. */
  void end() {
    server.close();
  }

  /** Ends the provider as a signal would, and closes the connection. */
  @Override
  public void close() throws IOException {
    server.close();
    channel.shutdownNow();
    Files.deleteIfExists(folder);
  }
}
