/** The log of a provider's process: on stderr, one JSON object a line, or text on a terminal. */

type Fields = Readonly<Record<string, unknown>>;

const LEVELS = ["debug", "info", "warn", "error"] as const;
type Level = (typeof LEVELS)[number];

/** A log whose lines all have some fields. `LOG_LEVEL` is debug, info, warn or error; info unless set. */
export class Logger {
  constructor(private readonly fields: Fields = {}) {}

  /** A log with more fields. */
  with(fields: Fields): Logger {
    return new Logger({ ...this.fields, ...fields });
  }

  debug(message: string, fields?: Fields): void { this.write("debug", message, fields); }
  info(message: string, fields?: Fields): void { this.write("info", message, fields); }
  warn(message: string, fields?: Fields): void { this.write("warn", message, fields); }
  error(message: string, fields?: Fields): void { this.write("error", message, fields); }

  private write(level: Level, message: string, fields: Fields = {}): void {
    if (LEVELS.indexOf(level) < LEVELS.indexOf(least)) return;
    const timestamp = new Date().toISOString();
    const all = { ...this.fields, ...fields };
    const text = Object.entries(all).map(([key, value]) => ` ${key}=${JSON.stringify(value, plain)}`).join("");
    const line = process.stderr.isTTY
      ? `${timestamp} ${level.toUpperCase().padEnd(5)} ${message}${text}`
      : JSON.stringify({ timestamp, level: level.toUpperCase(), message, ...all }, plain);
    process.stderr.write(`${line}\n`);
  }
}

/** JSON has no form for an error, nor for a bigint. */
function plain(_: string, value: unknown): unknown {
  if (value instanceof Error) return value.stack ?? value.message;
  return typeof value === "bigint" ? String(value) : value;
}

const levelName = (process.env.LOG_LEVEL ?? "info").trim().toLowerCase();
const least: Level = LEVELS.find((level) => level === levelName) ?? "info";

/** The log of the process, outside of calls. */
export const log = new Logger();
if (levelName !== least) log.warn("the log level is not known; info is used", { variable: "LOG_LEVEL", value: levelName.slice(0, 64) });
