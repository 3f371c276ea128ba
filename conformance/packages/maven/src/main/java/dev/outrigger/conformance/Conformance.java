// The cases of provider-conformance as tests of JUnit.
package dev.outrigger.conformance;

import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import com.google.gson.Gson;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.DynamicTest;

/**
 * Holds a provider against the contract:
 *
 * <pre>{@code
 * @TestFactory
 * Stream<DynamicTest> keepsTheContract() throws Exception {
 *   return Conformance.cases("inputs.yaml", "--allow-mutations");
 * }
 * }</pre>
 */
public final class Conformance {
  private Conformance() {}

  /** The parts of the JSON report that become tests. */
  private record Report(List<String> faults, List<Case> cases) {}

  private record Case(String id, String title, String result, String text, String because, Object waiver) {}

  /**
   * Runs the suite, and returns a test for each case. A first one, {@code run}, fails for what concerns no case; it is the only
   * one if the suite did not run.
   *
   * @param inputs the file of inputs, from the working directory
   * @param arguments more of {@code provider-conformance run}, such as {@code --allow-mutations}
   * @return tests, which say how their cases ended
   * @throws IOException if the program cannot be started, or its report cannot be read
   * @throws InterruptedException if this thread is interrupted before the suite ends
   */
  public static Stream<DynamicTest> cases(String inputs, String... arguments) throws IOException, InterruptedException {
    Path report = Files.createTempFile("provider-conformance", ".json");
    Path errors = Files.createTempFile("provider-conformance", ".txt");
    try {
      Stream<String> run = Stream.of("run", "--inputs=" + inputs, "--report=json=" + report);
      ProcessBuilder suite = Program.builder(Stream.concat(run, Stream.of(arguments)));
      suite.redirectOutput(ProcessBuilder.Redirect.DISCARD).redirectError(errors.toFile());
      int code = suite.start().waitFor();
      String json = Files.readString(report);
      if (json.isEmpty()) {
        // The provider's log is there, too.
        List<String> lines = Files.readAllLines(errors);
        String last = String.join("\n", lines.subList(Math.max(0, lines.size() - 20), lines.size()));
        return Stream.of(run("provider-conformance did not run the cases, exit code " + code + "\n" + last));
      }
      Report ran = new Gson().fromJson(json, Report.class);
      boolean isStrict = List.of(arguments).contains("--strict");
      Stream<DynamicTest> cases = ran.cases().stream()
          .map(one -> dynamicTest(one.id() + " " + one.title(), () -> judge(one, isStrict)));
      return Stream.concat(Stream.of(run(code == 0 ? "" : String.join("\n", ran.faults()))), cases);
    } finally {
      Files.delete(report);
      Files.delete(errors);
    }
  }

  private static DynamicTest run(String fault) {
    return dynamicTest("run", () -> {
      if (!fault.isEmpty()) {
        throw failure(fault);
      }
    });
  }

  private static void judge(Case ran, boolean isStrict) {
    switch (ran.result()) {
      case "passed" -> {
        if (ran.waiver() != null) {
          System.out.println(ran.text());
        }
      }
      case "warning", "note" -> {
        if (isStrict && ran.result().equals("warning")) {
          throw failure(ran.text());
        }
        System.out.println(ran.text());
      }
      case "skipped" -> Assumptions.abort(ran.because());
      case "waived" -> Assumptions.abort(ran.text());
      case "failed" -> throw failure(ran.text());
      default -> throw failure(ran.id() + " ended in a way that this package does not know: " + ran.result());
    }
  }

  /** A failure without the trace of this class. */
  private static AssertionError failure(String text) {
    AssertionError failure = new AssertionError(text);
    failure.setStackTrace(new StackTraceElement[0]);
    return failure;
  }
}
