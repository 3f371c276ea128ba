package dev.outrigger.provider;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
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
    System.exit(new Run(build).code(arguments));
  }

  /** One run, whose end may come from a signal. */
  private static final class Run {
    private final Build build;
    private final CompletableFuture<Void> stop = new CompletableFuture<>();
    private String endpoint = System.getenv().getOrDefault(SocketFile.ENDPOINT_VARIABLE, "");
    private boolean isProbe;
    private boolean isReadiness;
    private Duration patience = Duration.ofSeconds(4);

    private Run(Build build) {
      this.build = build;
    }

    private int code(String[] arguments) {
      List<String> rest;
      try {
        rest = read(arguments);
        if (endpoint.isEmpty()) {
          endpoint = SocketFile.DEFAULT_ENDPOINT;
        }
        SocketFile.pathOf(endpoint);
      } catch (IllegalArgumentException error) {
        return wrong(error);
      }
      if (rest == null) {
        System.out.println(USAGE);
        return 0;
      }
      if (isProbe) {
        if (!rest.isEmpty()) {
          return wrong(new IllegalArgumentException("unknown argument \"" + rest.get(0) + "\""));
        }
        Probe probe = Probe.of(SocketFile.pathOf(endpoint), isReadiness, patience);
        (probe.succeeds() ? System.out : System.err).println(probe.sentence());
        return probe.succeeds() ? 0 : 1;
      }
      Logs.init();
      // The JDK has no other way to exit with 0 after SIGTERM: it ends a process with 143.
      // Before the author's code runs: process 1 of a container ignores each signal that it does not catch.
      for (String name : List.of("TERM", "INT")) {
        sun.misc.Signal.handle(new sun.misc.Signal(name), signal -> {
          Logs.info("stopping", "signal", "SIG" + signal.getName());
          if (!stop.complete(null)) {
            Runtime.getRuntime().halt(1);
          }
        });
      }
      return serve(rest);
    }

    private static int wrong(IllegalArgumentException error) {
      System.err.println(error.getMessage());
      return 2;
    }

    /** The arguments that are the author's; null: only the usage is asked for. */
    private List<String> read(String[] arguments) {
      List<String> rest = new ArrayList<>();
      for (int i = 0; i < arguments.length; i++) {
        String[] parts = arguments[i].split("=", 2);
        switch (parts[0]) {
          case "serve", "probe" -> isProbe = parts[0].equals("probe");
          case "--ready" -> isReadiness = true;
          case "--endpoint", "--timeout" -> {
            boolean isBeside = parts.length == 1;
            if (isBeside && i + 1 == arguments.length) {
              throw new IllegalArgumentException(parts[0] + " has no value");
            }
            String value = isBeside ? arguments[++i] : parts[1];
            if (parts[0].equals("--endpoint")) {
              endpoint = value;
            } else {
              patience = seconds(value);
            }
          }
          case "--help", "-h" -> {
            return null;
          }
          default -> rest.add(arguments[i]);
        }
      }
      return rest;
    }

    private static Duration seconds(String text) {
      if (!text.matches("[1-9]|[1-5][0-9]|60")) {
        throw new IllegalArgumentException("--timeout is " + text + "; use 1 to 60 seconds");
      }
      return Duration.ofSeconds(Integer.parseInt(text));
    }

    private int serve(List<String> rest) {
      try {
        Provider provider = built(rest);
        if (provider == null) {
          Logs.info("stopped before serving");
          return 0;
        }
        ProviderServer server = ProviderServer.serve(provider, endpoint);
        boolean isReachable = server.isReachable();
        while (isReachable && !isStopped(1)) {
          isReachable = server.isReachable();
        }
        if (!isReachable) {
          Logs.error("the socket was removed or replaced, so that no controller finds this provider: ending", null,
              "endpoint", endpoint);
        }
        server.close();
        return isReachable ? 0 : 1;
      } catch (UsageException error) {
        return wrong(error.cause);
      } catch (IllegalArgumentException | SocketException error) {
        Logs.error("the provider cannot serve", null, "error", error.getMessage());
        return 1;
      } catch (Exception error) {
        Logs.error("the provider has failed", error);
        return 1;
      }
    }

    /** The author's arguments are wrong, and not the declaration of the provider. */
    private static final class UsageException extends Exception {
      private static final long serialVersionUID = 1;
      private final transient IllegalArgumentException cause;

      private UsageException(IllegalArgumentException cause) {
        this.cause = cause;
      }
    }

    /** Built in a thread of its own, so that a signal ends the process meanwhile: then null. */
    private Provider built(List<String> rest) throws Exception {
      CompletableFuture<Provider> making = new CompletableFuture<>();
      Thread maker = new Thread(() -> {
        try {
          Provider provider = build.provider(rest);
          if (provider == null) {
            throw new IllegalStateException("the program has made null, and no Provider");
          }
          making.complete(provider);
        } catch (IllegalArgumentException error) {
          making.completeExceptionally(new UsageException(error));
        } catch (Throwable error) {
          making.completeExceptionally(error);
        }
      }, "build");
      maker.setDaemon(true);
      maker.start();
      try {
        CompletableFuture.anyOf(making, stop).get();
        return making.isDone() ? making.get() : null;
      } catch (java.util.concurrent.ExecutionException error) {
        throw error.getCause() instanceof Exception cause ? cause : new Exception(error.getCause());
      }
    }

    private boolean isStopped(int seconds) throws Exception {
      try {
        stop.get(seconds, TimeUnit.SECONDS);
        return true;
      } catch (java.util.concurrent.TimeoutException error) {
        return false;
      }
    }
  }
}
