package dev.outrigger.provider;

import java.io.IOException;
import java.net.ConnectException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.time.Instant;
import java.util.Map;

/** The Unix socket: mode 0660 before it can be found, a stale one replaced, a live one refused. */
final class SocketFile {
  static final String ENDPOINT_VARIABLE = "CLOUDPROVIDER_ENDPOINT";
  static final String DEFAULT_ENDPOINT = "unix:///run/outrigger/provider.sock";
  /** The system's limit is 107 bytes, of which the name in the private folder takes some. */
  private static final int MOST_BYTES = 100;
  // Another start in the same folder lasts milliseconds; a private folder that is older is what a crash left.
  private static final Duration LOCK_TIME = Duration.ofSeconds(5);
  private static final int FILE_TYPE = 0170000;
  private static final int SOCKET_TYPE = 0140000;

  private final Path path;
  private final Map<String, Object> identity;

  private SocketFile(Path path) throws IOException {
    this.path = path;
    this.identity = identityOf(path);
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
    boolean isLegal = endpoint.startsWith("unix:") && path.startsWith("/") && !path.endsWith("/")
        && path.getBytes(StandardCharsets.UTF_8).length <= MOST_BYTES;
    if (!isLegal) {
      throw new IllegalArgumentException("endpoint \"" + endpoint
          + "\": write unix:///absolute/path/of.sock, of at most " + MOST_BYTES + " bytes");
    }
    return Path.of(path);
  }

  /**
   * A socket at a path, bound under another name and moved there once it has its mode: no other user can connect to it
   * before, and gRPC unlinks the name that it has bound when it ends, never the name that others use.
   *
   * @throws SocketException if another process serves there, or the socket cannot be made
   */
  static SocketFile bound(Path path, Bind bind) throws InterruptedException {
    try {
      makeFolder(path.getParent());
      Path folder = path.resolveSibling("." + path.getFileName());
      makePrivate(folder);
      Path hidden = folder.resolve("s");
      try {
        refuseLive(path);
        bind.at(hidden);
        Files.setPosixFilePermissions(hidden, PosixFilePermissions.fromString("rw-rw----"));
        Files.move(hidden, path, StandardCopyOption.ATOMIC_MOVE);
        return new SocketFile(path);
      } finally {
        Files.deleteIfExists(hidden);
        Files.deleteIfExists(folder);
      }
    } catch (IOException error) {
      String text = error instanceof java.nio.file.FileSystemException system && system.getReason() != null
          ? system.getFile() + ": " + system.getReason() : error.toString();
      throw new SocketException("cannot serve at " + path + ": " + text, error);
    }
  }

  /** A folder that exists keeps its mode: an emptyDir belongs to root. */
  private static void makeFolder(Path folder) throws IOException {
    if (folder == null || Files.isDirectory(folder)) {
      return;
    }
    makeFolder(folder.getParent());
    try {
      Files.createDirectory(folder);
    } catch (FileAlreadyExistsException byAnother) {
      return;
    }
    // The umask has removed bits. Controller and provider share the group (fsGroup), not the user.
    Files.setPosixFilePermissions(folder, PosixFilePermissions.fromString("rwxrwx---"));
  }

  /** The private folder is a lock, too: two that start together would each find no socket, and the later one would win. */
  private static void makePrivate(Path folder) throws IOException, InterruptedException {
    while (true) {
      try {
        Files.createDirectory(folder, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
        return;
      } catch (FileAlreadyExistsException error) {
        if (ageOf(folder).compareTo(LOCK_TIME) > 0) {
          Files.deleteIfExists(folder.resolve("s"));
          Files.deleteIfExists(folder);
        } else {
          Thread.sleep(20);
        }
      }
    }
  }

  private static Duration ageOf(Path folder) throws IOException {
    try {
      FileTime since = (FileTime) Files.getAttribute(folder, "unix:ctime", LinkOption.NOFOLLOW_LINKS);
      return Duration.between(since.toInstant(), Instant.now());
    } catch (NoSuchFileException removed) {
      return Duration.ZERO;
    }
  }

  /** Renaming over a live socket would succeed, and cut its owner off. */
  private static void refuseLive(Path path) throws IOException {
    Map<String, Object> identity = identityOf(path);
    if (identity.isEmpty()) {
      return;
    }
    if (((int) identity.get("mode") & FILE_TYPE) != SOCKET_TYPE) {
      throw new SocketException(path + " is not a socket; remove it or choose another endpoint", null);
    }
    try (SocketChannel client = SocketChannel.open(StandardProtocolFamily.UNIX)) {
      // Not blocking: where its queue is full, it is served.
      client.configureBlocking(false);
      client.connect(UnixDomainSocketAddress.of(path));
    } catch (ConnectException refused) {
      Logs.info("taking over a stale socket", "path", path);
      return;
    }
    throw new SocketException("another process serves " + path + "; stop it or choose another endpoint", null);
  }

  /** The identity of the file, empty where there is none: another process may put its own there. */
  private static Map<String, Object> identityOf(Path path) throws IOException {
    try {
      return Files.readAttributes(path, "unix:dev,ino,mode", LinkOption.NOFOLLOW_LINKS);
    } catch (NoSuchFileException error) {
      return Map.of();
    }
  }

  Path path() {
    return path;
  }

  /** Whether the file is still this one. */
  boolean isThere() {
    try {
      return identityOf(path).equals(identity);
    } catch (IOException error) {
      return false;
    }
  }

  /** Removes it, unless another one has come in its place. */
  void remove() {
    try {
      if (isThere()) {
        Files.deleteIfExists(path);
      }
    } catch (IOException error) {
      Logs.error("the socket cannot be removed", error, "path", path);
    }
  }
}
