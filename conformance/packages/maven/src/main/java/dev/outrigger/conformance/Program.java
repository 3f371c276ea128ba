// The program provider-conformance, which is in this jar.
package dev.outrigger.conformance;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.stream.Stream;

/** The program {@code provider-conformance} as a command: {@code java -jar conformance.jar list}. */
public final class Program {
  private static Path unpacked;

  private Program() {}

  /**
   * Runs the program, and ends with its exit code.
   *
   * @param arguments those of the program
   * @throws InterruptedException if this thread is interrupted before the program ends
   */
  public static void main(String[] arguments) throws InterruptedException {
    try {
      Process process = builder(Stream.of(arguments)).inheritIO().start();
      Runtime.getRuntime().addShutdownHook(new Thread(process::destroy));
      System.exit(process.waitFor());
    } catch (IOException failure) {
      System.err.println(failure.getMessage());
      System.exit(1);
    }
  }

  /** The program with these arguments, not yet started. */
  static ProcessBuilder builder(Stream<String> arguments) throws IOException {
    return new ProcessBuilder(Stream.concat(Stream.of(unpack().toString()), arguments).toList());
  }

  /** A file that can be started; it is deleted when this virtual machine ends. */
  private static synchronized Path unpack() throws IOException {
    if (unpacked == null) {
      String platform = System.getProperty("os.name").toLowerCase(Locale.ROOT) + "-" + System.getProperty("os.arch");
      try (var program = Program.class.getResourceAsStream(platform + "/provider-conformance")) {
        if (program == null) {
          throw new IOException("dev.outrigger:conformance has no program for " + platform
              + ": run it on Linux, amd64 or aarch64, such as in a container");
        }
        Path folder = Files.createTempDirectory("provider-conformance");
        Path file = folder.resolve("provider-conformance");
        List.of(folder, file).forEach(path -> path.toFile().deleteOnExit());
        Files.copy(program, file);
        if (!file.toFile().setExecutable(true)) {
          throw new IOException("cannot make " + file + " executable");
        }
        unpacked = file;
      }
    }
    return unpacked;
  }
}
