/** The Unix socket: its mode, and one that is there already. */
import { once } from "node:events";
import { chmod, lstat, mkdir, rename, rm } from "node:fs/promises";
import { connect } from "node:net";
import { basename, dirname, join } from "node:path";
import { promisify } from "node:util";
import { type Server, ServerCredentials } from "@grpc/grpc-js";

/** Serves at `unix:///path`, mode 0660; replaces a stale socket, refuses a live one. Returns what removes it. */
export async function listen(server: Server, endpoint: string): Promise<() => Promise<void>> {
  const path = /^unix:(?:\/\/)?(\/.*[^/])$/.exec(endpoint)?.[1];
  // The system's limit is 107 bytes, of which the temporary name takes some.
  if (path === undefined || Buffer.byteLength(path) > 95) {
    throw new Error(`endpoint ${endpoint}: write unix:///absolute/path/of.sock, of at most 95 bytes`);
  }
  const made = await mkdir(dirname(path), { recursive: true });
  if (made !== undefined) await chmod(dirname(path), 0o770);
  await refuseLive(path);
  // Made beside its path and moved there once it has its mode: no other user can connect to it before.
  const temporary = join(dirname(path), `.${basename(path)}.${String(process.pid)}`);
  await rm(temporary, { force: true });
  await promisify(server.bindAsync.bind(server))(`unix:${temporary}`, ServerCredentials.createInsecure());
  await chmod(temporary, 0o660);
  const { ino } = await lstat(temporary);
  await rename(temporary, path);
  return async () => {
    // Another process may have put its own there.
    if ((await lstat(path).catch(() => undefined))?.ino === ino) await rm(path, { force: true });
  };
}

async function refuseLive(path: string): Promise<void> {
  const stats = await lstat(path).catch(() => undefined);
  if (stats === undefined) return;
  if (!stats.isSocket()) throw new Error(`${path} is not a socket; remove it or choose another endpoint`);
  const client = connect(path);
  try {
    await once(client, "connect", { signal: AbortSignal.timeout(2_000) });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ECONNREFUSED") return;
    throw error;
  } finally {
    client.destroy();
  }
  throw new Error(`another process serves ${path}; stop it or choose another endpoint`);
}
