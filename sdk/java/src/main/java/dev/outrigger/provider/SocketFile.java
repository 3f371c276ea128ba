package dev.outrigger.provider;

import java.io.IOException;
import java.net.ConnectException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.PosixFilePermissions;

/** The Unix socket: mode 0660 before it can be found, a stale one replaced, a live one refused. */
final class SocketFile {
  /** The system's limit is 107 bytes, of which the name in the private folder takes some. */
  private static final int MOST_BYTES = 100;
  private final Path path;
  private final Object inode;

  private SocketFile(Path path) throws IOException {
    this.path = path;
    this.inode = attributes(path).fileKey();
  }

  /** Binds and listens at a path. */
  @FunctionalInterface
  interface Bind {
    /** Listens there when it returns. */
    void at(Path hidden) throws IOException;
  }

  /** The path of unix:///absolute/path or unix:/absolute/path. */
  static Path pathOf(String endpoint) {
    String path = endpoint.replaceFirst("^unix:(//)?", "");
    if (!endpoint.matches("unix:(//)?/.*[^/]") || path.getBytes(StandardCharsets.UTF_8).length > MOST_BYTES) {
      throw new IllegalArgumentException("endpoint \"" + endpoint
          + "\": write unix:///absolute/path/of.sock, of at most " + MOST_BYTES + " bytes");
    }
    return Path.of(path);
  }

  /**
   * A socket at a path, bound under another name and moved there once it has its mode: no other user can connect to it
   * before, and gRPC unlinks the name that it has bound when it ends, never the name that others use.
   *
   * @throws IOException if another process serves there, or the socket cannot be made
   */
  static SocketFile bound(Path path, Bind bind) throws IOException {
    try {
      if (!Files.isDirectory(path.getParent())) {
        Files.createDirectories(path.getParent());
        // The umask has removed bits. Controller and provider share the group (fsGroup), not the user.
        Files.setPosixFilePermissions(path.getParent(), PosixFilePermissions.fromString("rwxrwx---"));
      }
      refuseLive(path);
      // No other user may enter it.
      Path folder = Files.createTempDirectory(path.getParent(), ".s");
      Path hidden = folder.resolve("s");
      try {
        bind.at(hidden);
        Files.setPosixFilePermissions(hidden, PosixFilePermissions.fromString("rw-rw----"));
        Files.move(hidden, path, StandardCopyOption.ATOMIC_MOVE);
        return new SocketFile(path);
      } finally {
        Files.deleteIfExists(hidden);
        Files.deleteIfExists(folder);
      }
    } catch (IOException error) {
      String why = error instanceof FileSystemException ? error.toString() : error.getMessage();
      throw new IOException("cannot serve at " + path + ": " + why, error);
    }
  }

  /** Renaming over a live socket would succeed, and cut its owner off. */
  private static void refuseLive(Path path) throws IOException {
    if (!Files.exists(path, LinkOption.NOFOLLOW_LINKS)) {
      return;
    }
    if (!attributes(path).isOther()) {
      throw new IOException("it is not a socket; remove it or choose another endpoint");
    }
    try (SocketChannel client = SocketChannel.open(StandardProtocolFamily.UNIX)) {
      // Not blocking: where its queue is full, it is served.
      client.configureBlocking(false);
      client.connect(UnixDomainSocketAddress.of(path));
    } catch (ConnectException refused) {
      Logs.info("taking over a stale socket", "path", path);
      return;
    }
    throw new IOException("another process serves there; stop it or choose another endpoint");
  }

  private static BasicFileAttributes attributes(Path path) throws IOException {
    return Files.readAttributes(path, BasicFileAttributes.class, LinkOption.NOFOLLOW_LINKS);
  }

  /** True while the file is this one: another process may put its own there. */
  boolean isThere() {
    try {
      return attributes(path).fileKey().equals(inode);
    } catch (IOException error) {
      return false;
    }
  }

  /** Removes it, unless another one has come in its place. */
  void remove() throws IOException {
    if (isThere()) {
      Files.deleteIfExists(path);
    }
  }
}
