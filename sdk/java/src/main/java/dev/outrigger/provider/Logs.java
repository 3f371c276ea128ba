package dev.outrigger.provider;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.time.temporal.ChronoUnit;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.logging.ConsoleHandler;
import java.util.logging.Formatter;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;

/**
 * The log of the process, by java.util.logging: on stderr, text on a terminal and otherwise one JSON object a line.
 * Each line of a call's thread has {@code rpc} and {@code request_id}.
 */
public final class Logs {
  private static final String LEVEL_VARIABLE = "LOG_LEVEL";
  private static final Map<String, Level> LEVELS =
      Map.of("debug", Level.FINE, "info", Level.INFO, "warn", Level.WARNING, "error", Level.SEVERE);
  private static final Logger LOGGER = Logger.getLogger("dev.outrigger.provider");
  // Held, since a logger that is not is forgotten with its level.
  private static final Logger GRPC = Logger.getLogger("io.grpc");

  /** Fields of each line that is logged in the thread of a call. */
  static final ThreadLocal<Map<String, Object>> CALL = new ThreadLocal<>();

  private Logs() {}

  /**
   * Sets logging up for the whole process; {@code LOG_LEVEL} is debug, info, warn or error. {@link ProviderMain} calls
   * it.
   */
  public static void init() {
    String variable = System.getenv().getOrDefault(LEVEL_VARIABLE, "info").strip();
    Level level = LEVELS.get(variable.toLowerCase(Locale.ROOT));
    Logger root = Logger.getLogger("");
    for (Handler handler : root.getHandlers()) {
      root.removeHandler(handler);
    }
    Handler handler = new ConsoleHandler();
    handler.setLevel(Level.ALL);
    handler.setFormatter(System.console() == null ? new Json() : new Text());
    try {
      handler.setEncoding("UTF-8");
    } catch (java.io.UnsupportedEncodingException error) {
      throw new IllegalStateException("each Java has UTF-8", error);
    }
    root.addHandler(handler);
    root.setLevel(level == null ? Level.INFO : level);
    // gRPC logs each stream on its finer levels.
    GRPC.setLevel(Level.INFO);
    if (level == null) {
      warn("the log level is none of debug, info, warn and error; info is used",
          "variable", LEVEL_VARIABLE, "value", Statuses.cut(variable, 64));
    }
  }

  static void info(String message, Object... fields) {
    log(Level.INFO, message, null, fields);
  }

  static void warn(String message, Object... fields) {
    log(Level.WARNING, message, null, fields);
  }

  static void error(String message, Throwable error, Object... fields) {
    log(Level.SEVERE, message, error, fields);
  }

  /** Fields are names and values in turn. */
  private static void log(Level level, String message, Throwable error, Object... fields) {
    LogRecord record = new LogRecord(level, message);
    record.setLoggerName(LOGGER.getName());
    record.setThrown(error);
    record.setParameters(new Object[] {new Fields(fields)});
    LOGGER.log(record);
  }

  private record Fields(Object... namesAndValues) {
    void into(Map<String, Object> all) {
      for (int i = 0; i < namesAndValues.length; i += 2) {
        all.put(namesAndValues[i].toString(), namesAndValues[i + 1]);
      }
    }
  }

  private static Map<String, Object> fieldsOf(LogRecord record) {
    Map<String, Object> all = new LinkedHashMap<>();
    if (CALL.get() != null) {
      all.putAll(CALL.get());
    }
    if (record.getParameters() != null && record.getParameters().length == 1
        && record.getParameters()[0] instanceof Fields fields) {
      fields.into(all);
    }
    return all;
  }

  private static String levelOf(LogRecord record) {
    int value = record.getLevel().intValue();
    return value >= Level.SEVERE.intValue() ? "ERROR"
        : value >= Level.WARNING.intValue() ? "WARN" : value >= Level.INFO.intValue() ? "INFO" : "DEBUG";
  }

  private static String stackOf(Throwable error) {
    StringWriter text = new StringWriter();
    error.printStackTrace(new PrintWriter(text));
    return text.toString();
  }

  /** The keys timestamp, level and message as the controller has them, then the fields. */
  private static final class Json extends Formatter {
    @Override
    public String format(LogRecord record) {
      Map<String, Object> line = new LinkedHashMap<>();
      line.put("timestamp", record.getInstant().truncatedTo(ChronoUnit.MICROS));
      line.put("level", levelOf(record));
      line.put("logger", record.getLoggerName());
      line.put("message", formatMessage(record));
      line.putAll(fieldsOf(record));
      if (record.getThrown() != null) {
        line.put("exception", stackOf(record.getThrown()));
      }
      StringBuilder json = new StringBuilder();
      line.forEach((name, value) -> {
        json.append(json.isEmpty() ? "{" : ",");
        quote(json, name);
        json.append(':');
        if (value instanceof Number || value instanceof Boolean) {
          json.append(value);
        } else {
          quote(json, String.valueOf(value));
        }
      });
      return json.append("}\n").toString();
    }

    private static void quote(StringBuilder json, String text) {
      json.append('"');
      for (int i = 0; i < text.length(); i++) {
        char each = text.charAt(i);
        switch (each) {
          case '"', '\\' -> json.append('\\').append(each);
          case '\n' -> json.append("\\n");
          case '\t' -> json.append("\\t");
          default -> {
            if (each < 0x20 || Character.isSurrogate(each)) {
              json.append(String.format("\\u%04x", (int) each));
            } else {
              json.append(each);
            }
          }
        }
      }
      json.append('"');
    }
  }

  /** The same for people. */
  private static final class Text extends Formatter {
    @Override
    public String format(LogRecord record) {
      StringBuilder line = new StringBuilder();
      line.append(record.getInstant().truncatedTo(ChronoUnit.MILLIS)).append(' ').append(levelOf(record)).append(' ');
      line.append(formatMessage(record));
      fieldsOf(record).forEach((name, value) -> line.append(' ').append(name).append('=').append(value));
      line.append('\n');
      if (record.getThrown() != null) {
        line.append(stackOf(record.getThrown()));
      }
      return line.toString();
    }
  }
}
