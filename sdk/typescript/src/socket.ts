/** The Unix socket: its mode, one that is there already, and its end. */
import { once } from "node:events";
import { chmod, lstat, mkdir, rename, rm } from "node:fs/promises";
import { connect } from "node:net";
import { basename, dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { type Server, ServerCredentials } from "@grpc/grpc-js";
import { log } from "./logging.js";

/** Where the socket is unless `CLOUDPROVIDER_ENDPOINT` or a flag says otherwise. */
export const DEFAULT_ENDPOINT = "unix:///run/outrigger/provider.sock";
/** The system's limit is 107 bytes, of which the name in the private folder takes some. */
const MAX_PATH_BYTES = 95;
const CONNECT_TIMEOUT_MS = 2_000;
/** Another start in the same folder lasts milliseconds; a private folder that is older is what a crash left. */
const LOCK_TIMEOUT_MS = 5_000;

/** The path of `unix:///absolute/path` or `unix:/absolute/path`. */
export function pathOf(endpoint: string): string {
  const path = /^unix:(?:\/\/)?(\/.*[^/])$/.exec(endpoint)?.[1];
  if (path === undefined || Buffer.byteLength(path) > MAX_PATH_BYTES) {
    throw new Error(`endpoint ${JSON.stringify(endpoint)}: write unix:///absolute/path/of.sock, of at most ${String(MAX_PATH_BYTES)} bytes`);
  }
  return path;
}

/** Serves at the path, mode 0660; replaces a stale socket, refuses a live one. Returns what removes it. */
export async function listen(server: Server, path: string): Promise<() => Promise<void>> {
  try {
    const first = await mkdir(dirname(path), { recursive: true });
    // The umask has removed bits. A folder that exists keeps its mode: an emptyDir belongs to root.
    if (first !== undefined) await chmod(dirname(path), 0o770);
    const folder = join(dirname(path), `.${basename(path)}`);
    await makePrivate(folder);
    try {
      await refuseLive(path);
      return await move(server, join(folder, "s"), path);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  } catch (error) {
    throw new Error(`cannot serve at ${path}: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
  }
}

/** The private folder is a lock, too: two that start together would each find no socket, and the later one would win. */
async function makePrivate(folder: string): Promise<void> {
  for (;;) {
    try {
      await mkdir(folder, { mode: 0o700 });
      return;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    }
    const age = Date.now() - ((await lstat(folder).catch(() => undefined))?.ctimeMs ?? Date.now());
    if (age > LOCK_TIMEOUT_MS) await rm(folder, { recursive: true, force: true });
    else await sleep(20);
  }
}

/** Moved to its path once it has its mode: no other user can connect to it before. */
async function move(server: Server, hidden: string, path: string): Promise<() => Promise<void>> {
  await promisify(server.bindAsync.bind(server))(`unix:${hidden}`, ServerCredentials.createInsecure());
  try {
    await chmod(hidden, 0o660);
    const { ino } = await lstat(hidden);
    await rename(hidden, path);
    return async () => {
      // Another process may have put its own there.
      if ((await lstat(path).catch(() => undefined))?.ino === ino) await rm(path, { force: true });
    };
  } catch (error) {
    server.forceShutdown();
    throw error;
  }
}

async function refuseLive(path: string): Promise<void> {
  const stats = await lstat(path).catch(() => undefined);
  if (stats === undefined) return;
  if (!stats.isSocket()) throw new Error("it is not a socket; remove it or choose another endpoint");
  const client = connect(path);
  try {
    await once(client, "connect", { signal: AbortSignal.timeout(CONNECT_TIMEOUT_MS) });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ECONNREFUSED") log.info("taking over a stale socket", { path });
    if (code === "ECONNREFUSED" || code === "ENOENT") return;
    // With EAGAIN its queue is full.
    if (code !== "EAGAIN" && code !== "ABORT_ERR") throw error;
  } finally {
    client.destroy();
  }
  throw new Error("another process serves there; stop it or choose another endpoint");
}
