package dev.outrigger.provider;

import io.grpc.ManagedChannel;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.netty.shaded.io.netty.channel.EventLoopGroup;
import io.grpc.netty.shaded.io.netty.channel.MultiThreadIoEventLoopGroup;
import io.grpc.netty.shaded.io.netty.channel.epoll.EpollDomainSocketChannel;
import io.grpc.netty.shaded.io.netty.channel.epoll.EpollIoHandler;
import io.grpc.netty.shaded.io.netty.channel.epoll.EpollServerDomainSocketChannel;
import io.grpc.netty.shaded.io.netty.channel.unix.DomainSocketAddress;
import io.grpc.netty.shaded.io.netty.util.concurrent.DefaultThreadFactory;
import java.nio.file.Path;
import java.util.logging.Level;
import java.util.logging.Logger;

/** gRPC over Unix sockets; each provider and each probe has a connection of its own. */
public final class UnixChannel {
  // One thread moves the bytes; handlers have threads of their own. It keeps no process.
  private static final EventLoopGroup LOOP =
      new MultiThreadIoEventLoopGroup(1, new DefaultThreadFactory("socket", true), EpollIoHandler.newFactory());

  // Held, since a logger that is not is forgotten with its level.
  private static final Logger NETTY = Logger.getLogger("io.grpc.netty.shaded");

  static {
    // It warns of each connection, since a Unix socket has no SO_KEEPALIVE, and of each caller that has gone.
    NETTY.setLevel(Level.SEVERE);
  }

  private UnixChannel() {}

  static NettyServerBuilder server(Path path) {
    return NettyServerBuilder.forAddress(new DomainSocketAddress(path.toString()))
        .channelType(EpollServerDomainSocketChannel.class).bossEventLoopGroup(LOOP).workerEventLoopGroup(LOOP);
  }

  /** A connection to the provider at a path, made with its first call. */
  public static ManagedChannel to(Path path) {
    return NettyChannelBuilder.forAddress(new DomainSocketAddress(path.toString()))
        .channelType(EpollDomainSocketChannel.class).eventLoopGroup(LOOP)
        .usePlaintext().overrideAuthority("localhost").maxInboundMessageSize(Integer.MAX_VALUE).build();
  }
}
