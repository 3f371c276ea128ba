/** The command line of a provider: serve and probe. */
import { parseArgs } from "node:util";
import { log } from "./logging.js";
import type { Provider } from "./provider.js";
import { probe } from "./probe.js";
import { serve } from "./serve.js";
import { DEFAULT_ENDPOINT, pathOf } from "./socket.js";

const USAGE = `A cloud provider for Outrigger.

serve [--endpoint ENDPOINT]      the default
probe [--endpoint ENDPOINT] [--ready] [--timeout SECONDS]
                                 asks a running provider how it is, for exec probes

--endpoint   socket of the provider, as unix:///absolute/path; also $CLOUDPROVIDER_ENDPOINT
--ready      fail also while the provider is starting (readiness probe)
--timeout    1 to 60, 4 unless given; keep it below timeoutSeconds
`;

/** Makes the provider from the arguments that are not the SDK's. */
export type Build = (args: string[]) => Provider | Promise<Provider>;

/**
 * The main function of a provider. It ends the process: with 0 after SIGTERM or SIGINT, with 1 and a line in the log if the
 * provider cannot be made or served, and after a second signal, with 2 for a wrong command line.
 */
export async function main(provider: Provider | Build): Promise<never> {
  return process.exit(await execute(process.argv.slice(2), provider));
}

async function execute(args: string[], provider: Provider | Build): Promise<number> {
  const [first = ""] = args;
  const command = ["serve", "probe"].includes(first) ? first : "serve";
  const options = first === command ? args.slice(1) : args;
  if (options.includes("--help") || options.includes("-h")) {
    process.stdout.write(USAGE);
    return 0;
  }
  try {
    if (command === "probe") return await runProbe(options);
    const [endpoint, rest] = endpointOf(options);
    if (typeof provider !== "function" && rest.length > 0) throw new Error(`unknown argument ${JSON.stringify(rest[0])}; the commands are serve and probe`);
    pathOf(endpoint);
    return await serveUntilSignal(endpoint, async () => (typeof provider === "function" ? provider(rest) : provider));
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
    return 2;
  }
}

/** The endpoint, and the arguments besides it. */
function endpointOf(args: string[]): [endpoint: string, rest: string[]] {
  const place = args.findIndex((arg) => arg === "--endpoint" || arg.startsWith("--endpoint="));
  if (place < 0) return [process.env.CLOUDPROVIDER_ENDPOINT ?? DEFAULT_ENDPOINT, args];
  const [name = "", value] = args[place]?.split(/=(.*)/s) ?? [];
  const endpoint = value ?? args[place + 1];
  if (endpoint === undefined) throw new Error(`${name} has no value`);
  return [endpoint, args.toSpliced(place, value === undefined ? 2 : 1)];
}

async function runProbe(args: string[]): Promise<number> {
  const { endpoint = process.env.CLOUDPROVIDER_ENDPOINT ?? DEFAULT_ENDPOINT, ready, timeout } = parseArgs({
    args, options: { endpoint: { type: "string" }, ready: { type: "boolean", default: false }, timeout: { type: "string", default: "4" } },
  }).values;
  const seconds = Number(timeout);
  if (!(seconds >= 1 && seconds <= 60)) throw new Error(`--timeout is ${timeout}; use 1 to 60 seconds`);
  const { isHealthy, sentence } = await probe(`unix://${pathOf(endpoint)}`, { ready, timeout: seconds * 1000 });
  (isHealthy ? process.stdout : process.stderr).write(`${sentence}\n`);
  return isHealthy ? 0 : 1;
}

/** Signals are caught before the provider is made: process 1 of a container ignores each one that it does not catch. */
async function serveUntilSignal(endpoint: string, build: () => Promise<Provider>): Promise<number> {
  const stop = new AbortController();
  let isServing = false;
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    process.on(signal, () => {
      log.info("stopping", { signal });
      // A second signal does not wait for calls.
      if (stop.signal.aborted || !isServing) process.exit(isServing ? 1 : 0);
      stop.abort();
    });
  }
  process.on("uncaughtException", (error) => {
    log.error("provider ended: an exception outside of a call, such as a promise without await", { error });
    process.exit(1);
  });
  // A log without a reader does not end the provider.
  process.stderr.on("error", () => undefined);
  try {
    const provider = await build();
    isServing = true;
    await serve(provider, endpoint, stop.signal);
    return 0;
  } catch (error) {
    log.error("provider ended", { error: error instanceof Error && error.cause === undefined ? error : String(error) });
    return 1;
  }
}
