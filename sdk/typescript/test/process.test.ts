/** Tests of the socket's file, the command line, signals, and what ends the process. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { once } from "node:events";
import { chmod, chown, lstat, mkdir, mkdtemp, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { probe } from "../src/index.js";
import { ask, clients, close, context, eventually, node, range, refusal, start, stop, temporarySocket } from "./harness.js";

/** Starts it, and gives a lookup of the Node with this name, after a handshake. */
async function running(t: { after(work: () => unknown): void }) {
  const path = await temporarySocket();
  const child = await start("provider", path);
  const all = clients(path);
  t.after(async () => { close(all); await stop(child, "SIGKILL"); });
  await ask(all.provider.handshake.bind(all.provider), range);
  const lookup = (name: string) =>
    ask(all.instances.batchGetInstances.bind(all.instances), { context, items: [node(name)], maxStaleness: undefined, view: 1 });
  return { path, child, all, lookup };
}

test("a probe tells whether the provider answers", async (t) => {
  const { path, child } = await running(t);
  assert.deepEqual(await probe(`unix://${path}`), { isHealthy: true, sentence: `the provider at unix://${path} is ready` });
  await assert.rejects(start("provider", path, "probe"), /ended with 0/);
  await stop(child, "SIGKILL");
  const { isHealthy, sentence } = await probe(`unix://${path}`);
  assert.equal(isHealthy, false);
  assert.match(sentence, /does not answer: 14 UNAVAILABLE/);
  await assert.rejects(start("provider", path, "probe"), /ended with 1: the provider at .* does not answer/);
  await assert.rejects(start("provider", path, "probe", "--timeout=0"), /ended with 2: --timeout is 0; use 1 to 60 seconds/);
  const silentPath = await temporarySocket();
  const silent = createServer((socket) => { t.after(() => socket.destroy()); }).listen(silentPath);
  t.after(() => silent.close());
  assert.match((await probe(`unix://${silentPath}`, { timeout: 200 })).sentence, /DEADLINE_EXCEEDED/);
});

test("of two that start together one serves", async (t) => {
  const path = await temporarySocket();
  const both = await Promise.allSettled([start("provider", path), start("provider", path)]);
  for (const one of both) if (one.status === "fulfilled") t.after(() => stop(one.value, "SIGKILL"));
  assert.deepEqual(both.map(({ status }) => status).sort(), ["fulfilled", "rejected"]);
});

test("a file that is no socket stays, and an endpoint that is none is named", async () => {
  const path = await temporarySocket();
  await writeFile(path, "mine");
  await assert.rejects(start("provider", path), /ended with 1: .*it is not a socket/);
  await assert.rejects(start("provider", `${dirname(path)}/`), /ended with 2: .*write unix:/);
  await assert.rejects(start("provider", `/${"x".repeat(95)}`), /at most 95 bytes/);
});

test("a folder without the right to write is named, and the exit code is 1", async () => {
  const folder = await mkdtemp(join(tmpdir(), "provider-"));
  const closed = join(folder, "closed");
  await mkdir(closed, { mode: 0o555 });
  await chmod(folder, 0o755);
  const isRoot = process.getuid?.() === 0;
  if (isRoot) await chown(closed, 0, 0);
  const main = fileURLToPath(new URL("programs/provider.js", import.meta.url));
  const env = { ...process.env, CLOUDPROVIDER_ENDPOINT: `unix://${closed}/provider.sock` };
  // Root may write everywhere.
  const ended = promisify(execFile)(process.execPath, [main], { env, ...(isRoot && { uid: 65_534, gid: 65_534 }) });
  await assert.rejects(ended, (error: { code: number; stderr: string }) => {
    assert.equal(error.code, 1);
    assert.match(error.stderr, /cannot serve at .*provider.sock: EACCES: permission denied/);
    return true;
  });
});

test("a provider that cannot be made ends with 1 and says why", async () => {
  await assert.rejects(start("provider", await temporarySocket(), "throws"), /ended with 1: .*the cloud has no such account/);
});

test("an argument that has no meaning ends with 2", async () => {
  await assert.rejects(start("fixed", await temporarySocket(), "--endpont=unix:///x"), /ended with 2: unknown argument "--endpont=unix:\/\/\/x"/);
  await assert.rejects(start("fixed", await temporarySocket(), "--endpoint"), /ended with 2: --endpoint has no value/);
});

test("SIGTERM lets a call end that runs, refuses new ones, and a second signal ends it immediately", async (t) => {
  const { child, lookup, path } = await running(t);
  const slow = lookup("slow");
  await lookup("a");
  const exit = once(child.process, "exit");
  child.process.kill("SIGTERM");
  await eventually(() => child.log().includes('"stopping"') || undefined);
  assert.match(await refusal(lookup("a")), /^SHUTTING_DOWN/);
  await writeFile(`${path}.released`, "");
  assert.equal((await slow).results.length, 1);
  assert.deepEqual(await exit, [0, null]);
  await assert.rejects(lstat(path), { code: "ENOENT" });

  const other = await running(t);
  void other.lookup("slow").catch(() => undefined);
  await other.lookup("a");
  const second = once(other.child.process, "exit");
  other.child.process.kill("SIGTERM");
  await eventually(() => other.child.log().includes('"stopping"') || undefined);
  other.child.process.kill("SIGINT");
  assert.deepEqual(await second, [1, null]);
});

test("a log without a reader does not end the provider", async (t) => {
  const { child, lookup } = await running(t);
  child.process.stderr?.destroy();
  await refusal(lookup("throws"));
  await lookup("a");
  assert.equal(await stop(child), 0);
});

test("a rejection that nothing awaits ends the process with 1 and its cause in the log", async (t) => {
  const { child, lookup } = await running(t);
  const exit = once(child.process, "exit");
  await lookup("stray").catch(() => undefined);
  assert.deepEqual(await exit, [1, null]);
  assert.match(child.log(), /an exception outside of a call.*nothing awaits this/);
});
