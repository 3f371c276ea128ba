/** Tests of the socket's file and of the end of the process. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { chmod, lstat, readdir, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { createServer } from "node:net";
import { test } from "node:test";
import { probe } from "../src/probe.js";
import { ask, clients, close, eventually, start, stop, temporarySocket } from "./harness.js";

const range = { minMinor: 1, maxMinor: 3, controllerName: "test", controllerVersion: "", kubernetesVersion: "", cluster: undefined, maxReceiveMessageBytes: 0 };

test("the socket has mode 0660, and nothing else is left beside it", async (t) => {
  const path = await temporarySocket();
  const child = await start(path);
  t.after(() => stop(child, "SIGKILL"));
  assert.equal((await lstat(path)).mode & 0o777, 0o660);
  assert.deepEqual(await readdir(dirname(path)), ["provider.sock"]);
});

test("a probe tells whether the provider answers", async (t) => {
  const path = await temporarySocket();
  const child = await start(path);
  t.after(() => stop(child, "SIGKILL"));
  assert.deepEqual(await probe(`unix://${path}`), { answers: true, sentence: `the provider at unix://${path} is ready` });
  await assert.rejects(start(path, "probe"), /ended with 0/);
  await stop(child, "SIGKILL");
  const gone = await probe(`unix://${path}`);
  assert.equal(gone.answers, false);
  assert.match(gone.sentence, /does not answer: 14 UNAVAILABLE/);
  await assert.rejects(start(path, "probe"), /ended with 1/);
  const silentPath = await temporarySocket();
  const silent = createServer((socket) => { t.after(() => socket.destroy()); }).listen(silentPath);
  t.after(() => silent.close());
  assert.match((await probe(`unix://${silentPath}`, 200)).sentence, /DEADLINE_EXCEEDED/);
});

test("a live socket is refused and goes on serving; SIGTERM removes it and ends with 0", async (t) => {
  const path = await temporarySocket();
  const child = await start(path);
  t.after(() => stop(child, "SIGKILL"));
  await assert.rejects(start(path), /another process serves/);
  const all = clients(path);
  const first = await ask(all.provider.handshake.bind(all.provider), range);
  assert.equal(first.minor, 1);
  close(all);
  assert.equal(await stop(child), 0);
  await assert.rejects(lstat(path), { code: "ENOENT" });
});

test("a socket that a killed process left is replaced; the boot_id is another one", async (t) => {
  const path = await temporarySocket();
  const boots = new Set<string>();
  for (let i = 0; i < 2; i++) {
    const child = await start(path);
    t.after(() => stop(child, "SIGKILL"));
    const all = clients(path);
    boots.add((await ask(all.provider.getStatus.bind(all.provider), {})).bootId);
    close(all);
    await stop(child, "SIGKILL");
    assert.ok((await lstat(path)).isSocket());
  }
  assert.equal(boots.size, 2);
});

test("a file that is no socket stays, and an endpoint that is none is named", async () => {
  const path = await temporarySocket();
  await writeFile(path, "mine");
  await assert.rejects(start(path), /is not a socket/);
  await assert.rejects(start(`${dirname(path)}/`), /write unix:/);
  await assert.rejects(start(`/${"x".repeat(95)}`), /at most 95 bytes/);
  await chmod(path, 0o600);
});

test("SIGTERM lets a call end that runs, and refuses new connections", async (t) => {
  const path = await temporarySocket();
  const child = await start(path);
  t.after(() => stop(child, "SIGKILL"));
  const all = clients(path);
  const upload = all.nodeSets.syncNodeSet((error, answer) => { ended.push(error ?? answer); });
  const ended: unknown[] = [];
  upload.write({ part: { $case: "begin", value: { context: undefined, setId: "s", baseRevision: "", revision: "1", nodeCount: 0 } } });
  await ask(all.provider.getStatus.bind(all.provider), {});
  const exit = once(child, "exit");
  child.kill("SIGTERM");
  await eventually(async () => (await lstat(path).catch(() => "gone")) === "gone" || undefined);
  assert.equal(child.exitCode, null);
  upload.write({ part: { $case: "commit", value: { changeCount: 0 } } });
  upload.end();
  assert.deepEqual(await exit, [0, null]);
  assert.deepEqual(ended, [{ revision: "1" }]);
  close(all);
});
