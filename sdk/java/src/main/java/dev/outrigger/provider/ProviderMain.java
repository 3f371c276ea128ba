package dev.outrigger.provider;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** The command line of a provider: serve and probe, exit codes and signals. */
public final class ProviderMain {
  private static final String USAGE = """
      usage: [serve] [--endpoint unix:///absolute/path]
             probe [--ready] [--timeout SECONDS] [--endpoint unix:///absolute/path]

      serve is the default. The endpoint is also $CLOUDPROVIDER_ENDPOINT. probe fails if the provider does not answer or
      is broken, with --ready also while it is starting; it waits 4 seconds, or 1 to 60 with --timeout.""";

  private ProviderMain() {}

  /** Makes the provider, before the socket appears. */
  @FunctionalInterface
  public interface Build {
    /**
     * The provider.
     *
     * @param arguments those of the command line that are not {@link ProviderMain}'s
     * @throws IllegalArgumentException for arguments that are wrong: exit code 2
     */
    Provider provider(List<String> arguments) throws Exception;
  }

  /** The same for a provider without arguments of its own. */
  public static void run(String[] arguments, Provider provider) {
    run(arguments, rest -> {
      if (!rest.isEmpty()) {
        throw new IllegalArgumentException("unknown argument \"" + rest.get(0) + "\"");
      }
      return provider;
    });
  }

  /**
   * Serves a provider until SIGTERM or SIGINT, or asks the one that serves with the command {@code probe}; then exits.
   *
   * <p>Exit codes: 0 after a signal, 1 where the provider cannot be made or served, 2 for arguments that are wrong. A
   * second signal ends the process immediately, with 1.
   */
  public static void run(String[] arguments, Build build) {
    int code;
    try {
      code = execute(new ArrayList<>(List.of(arguments)), build);
    } catch (IllegalArgumentException error) {
      System.err.println(error.getMessage());
      code = 2;
    } catch (Exception error) {
      Logs.error("the provider has failed", error);
      code = 1;
    }
    System.exit(code);
  }

  private static int execute(List<String> arguments, Build build) throws Exception {
    if (arguments.contains("--help") || arguments.contains("-h")) {
      System.out.println(USAGE);
      return 0;
    }
    String variable = System.getenv().getOrDefault("CLOUDPROVIDER_ENDPOINT", "unix:///run/outrigger/provider.sock");
    String endpoint = option(arguments, "--endpoint", variable);
    SocketFile.pathOf(endpoint);
    arguments.remove("serve");
    if (arguments.remove("probe")) {
      boolean isReadiness = arguments.remove("--ready");
      String timeout = option(arguments, "--timeout", "4");
      if (!timeout.matches("[1-9]|[1-5][0-9]|60") || !arguments.isEmpty()) {
        throw new IllegalArgumentException("--timeout is " + timeout + "; use 1 to 60 seconds, and no arguments " + arguments);
      }
      Probe probe = Probe.of(SocketFile.pathOf(endpoint), isReadiness, Integer.parseInt(timeout));
      (probe.succeeds() ? System.out : System.err).println(probe.sentence());
      return probe.succeeds() ? 0 : 1;
    }
    Logs.init();
    return serve(arguments, endpoint, build);
  }

  private static int serve(List<String> rest, String endpoint, Build build) throws Exception {
    CountDownLatch serving = new CountDownLatch(1);
    CountDownLatch stop = new CountDownLatch(1);
    // The JDK has no other way to exit with 0 after SIGTERM: it ends a process with 143.
    // Before the author's code runs: process 1 of a container ignores each signal that it does not catch.
    for (String name : List.of("TERM", "INT")) {
      sun.misc.Signal.handle(new sun.misc.Signal(name), signal -> {
        Logs.info("stopping", "signal", "SIG" + signal.getName());
        if (stop.getCount() == 0 || serving.getCount() > 0) {
          Runtime.getRuntime().halt(serving.getCount() > 0 ? 0 : 1);
        }
        stop.countDown();
      });
    }
    Provider provider = build.provider(rest);
    serving.countDown();
    try (ProviderServer server = ProviderServer.serve(provider, endpoint)) {
      while (!stop.await(1, TimeUnit.SECONDS)) {
        if (!server.isReachable()) {
          throw new IllegalStateException("the socket was removed or replaced, so that no controller finds this provider");
        }
      }
    }
    return 0;
  }

  /** Takes {@code --name value} or {@code --name=value} out of the arguments. */
  private static String option(List<String> arguments, String name, String otherwise) {
    for (int i = 0; i < arguments.size(); i++) {
      if (arguments.get(i).startsWith(name + "=")) {
        return arguments.remove(i).substring(name.length() + 1);
      } else if (arguments.get(i).equals(name)) {
        if (i + 1 == arguments.size()) {
          throw new IllegalArgumentException(name + " has no value");
        }
        arguments.remove(i);
        return arguments.remove(i);
      }
    }
    return otherwise;
  }
}
