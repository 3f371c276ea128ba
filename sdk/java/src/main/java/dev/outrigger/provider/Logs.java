package dev.outrigger.provider;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.io.UnsupportedEncodingException;
import java.time.temporal.ChronoUnit;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.logging.*;

/**
 * The log of the process, by java.util.logging: on stderr, one JSON object a line. Each line of a call's thread has
 * {@code rpc} and {@code request_id}.
 */
public final class Logs {
  private static final Map<String, Level> LEVELS =
      Map.of("debug", Level.FINE, "info", Level.INFO, "warn", Level.WARNING, "error", Level.SEVERE);
  private static final Logger LOGGER = Logger.getLogger("dev.outrigger.provider");
  // Held, since a logger that is not is forgotten with its level.
  private static final Logger GRPC = Logger.getLogger("io.grpc");
  private static final Gson GSON = new GsonBuilder().disableHtmlEscaping().create();

  private Logs() {}

  /** Sets logging up for the whole process; {@code LOG_LEVEL} is debug, info, warn or error, else info. {@link ProviderMain} calls it. */
  public static void init() throws UnsupportedEncodingException {
    String level = System.getenv().getOrDefault("LOG_LEVEL", "info").strip().toLowerCase(Locale.ROOT);
    Logger root = Logger.getLogger("");
    List.of(root.getHandlers()).forEach(root::removeHandler);
    Handler handler = new ConsoleHandler();
    handler.setLevel(Level.ALL);
    handler.setFormatter(new Json());
    handler.setEncoding("UTF-8");
    root.addHandler(handler);
    root.setLevel(LEVELS.getOrDefault(level, Level.INFO));
    // It logs each stream on its finer levels.
    GRPC.setLevel(Level.INFO);
  }

  static void info(String message, Object... fields) {
    log(Level.INFO, message, null, fields);
  }

  static void error(String message, Throwable error, Object... fields) {
    log(Level.SEVERE, message, error, fields);
  }

  /** Fields are names and values in turn. */
  private static void log(Level level, String message, Throwable error, Object... fields) {
    Map<String, Object> all = new LinkedHashMap<>();
    for (int i = 0; i < fields.length; i += 2) {
      all.put(fields[i].toString(), fields[i + 1] instanceof Number number ? number : String.valueOf(fields[i + 1]));
    }
    LogRecord line = new LogRecord(level, message);
    line.setLoggerName(LOGGER.getName());
    line.setThrown(error);
    line.setParameters(new Object[] {all});
    LOGGER.log(line);
  }

  /** The keys timestamp, level and message as the controller has them, then the fields. */
  private static final class Json extends Formatter {
    @Override
    public String format(LogRecord record) {
      int level = record.getLevel().intValue();
      Map<String, Object> line = new LinkedHashMap<>();
      line.put("timestamp", record.getInstant().truncatedTo(ChronoUnit.MICROS).toString());
      line.put("level", level >= 1000 ? "ERROR" : level >= 900 ? "WARN" : level >= 800 ? "INFO" : "DEBUG");
      line.put("logger", record.getLoggerName());
      line.put("message", formatMessage(record));
      Call call = Call.CURRENT.get();
      if (call != null) {
        line.putAll(Map.of("rpc", call.rpc, "request_id", call.requestId));
      }
      if (record.getParameters() != null && record.getParameters()[0] instanceof Map<?, ?> fields) {
        fields.forEach((name, value) -> line.put(name.toString(), value));
      }
      if (record.getThrown() != null) {
        StringWriter stack = new StringWriter();
        record.getThrown().printStackTrace(new PrintWriter(stack));
        line.put("exception", stack.toString());
      }
      return GSON.toJson(line) + "\n";
    }
  }
}
