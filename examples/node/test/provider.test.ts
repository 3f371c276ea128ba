/** Tests of the provider, through its socket. */
import assert from "node:assert/strict";
import type { ChildProcess } from "node:child_process";
import { after, before, test } from "node:test";
import type { NodeTargets, SyncNodeSetRequest } from "../gen/cloudprovider/v1/node_sets.js";
import { LoadBalancerDisposition as D, type UpdateLoadBalancerNodesResponse } from "../gen/cloudprovider/v1/load_balancers.js";
import { AbsenceCertainty } from "../gen/cloudprovider/v1/common.js";
import { PowerState } from "../gen/cloudprovider/v1/instances.js";
import { ask, type Clients, clients, close, context, eventually, node, nodeAt, reasonOf, refusal, service, start, stop, temporarySocket } from "./harness.js";

let child: ChildProcess;
let all: Clients;

before(async () => {
  const path = await temporarySocket();
  child = await start(path, "worker-1", "worker-2", "stopped=off");
  all = clients(path);
});
after(async () => {
  close(all);
  await stop(child, "SIGKILL");
});

const inline = (...nodes: ReturnType<typeof node>[]): NodeTargets => ({ targets: { $case: "inline", value: { nodes } } });
const named = (revision: string): NodeTargets => ({ targets: { $case: "ref", value: { setId: "set", revision } } });
const lookup = (...items: ReturnType<typeof node>[]) =>
  ask(all.instances.batchGetInstances.bind(all.instances), { context, items, maxStaleness: undefined, view: 1 });
const balancers = () => all.loadBalancers;
const get = (of: ReturnType<typeof service>, targets?: NodeTargets) =>
  ask(balancers().getLoadBalancer.bind(balancers()), { context, service: of, targets });
const ensure = (of: ReturnType<typeof service>, targets = inline(), held?: string[], by = context) =>
  ask(balancers().ensureLoadBalancer.bind(balancers()), { context: by, service: of, targets, heldAddresses: held && { ips: held } });
const remove = (of: ReturnType<typeof service>) =>
  ask(balancers().deleteLoadBalancer.bind(balancers()), { context, service: of });

async function ready(of: ReturnType<typeof service>, targets?: NodeTargets, held?: string[]): Promise<string[]> {
  return eventually(async () => {
    const { answer } = await ensure(of, targets, held);
    assert.ok(answer);
    if (answer.disposition === D.IN_PROGRESS) assert.equal(answer.retryAfter?.seconds, 1);
    return answer.disposition === D.READY ? answer.status?.ingress.map(({ ip }) => ip) : undefined;
  });
}

async function update(items: ReturnType<typeof service>[], targets: NodeTargets): Promise<Map<string, D | undefined>> {
  const dispositions = new Map<string, D | undefined>();
  const stream = balancers().updateLoadBalancerNodes({ context, items, targets }) as AsyncIterable<UpdateLoadBalancerNodesResponse>;
  for await (const { results } of stream) {
    for (const { key, outcome } of results) dispositions.set(key, outcome?.$case === "found" ? outcome.value.disposition : undefined);
  }
  return dispositions;
}

async function owned(): Promise<string[]> {
  const names: string[] = [];
  let complete = false;
  for await (const part of balancers().listLoadBalancers({ context }) as AsyncIterable<{ items: { service: { name: string } | undefined }[]; complete: boolean }>) {
    assert.ok(!complete);
    names.push(...part.items.map((one) => one.service?.name ?? ""));
    complete = part.complete;
  }
  assert.ok(complete);
  return names;
}

test("a handshake takes the highest common minor and refuses a range without one", async () => {
  const shake = (minMinor: number, maxMinor: number) => ask(all.provider.handshake.bind(all.provider), {
    minMinor, maxMinor, controllerName: "test", controllerVersion: "", kubernetesVersion: "", cluster: undefined, maxReceiveMessageBytes: 0,
  });
  assert.equal((await shake(1, 7)).minor, 1);
  assert.equal(await refusal(shake(2, 7)), "9 cloudprovider.v1 VERSION_UNSUPPORTED");
});

test("instances: found by id and name, stopped, absent, another provider's, malformed", async () => {
  const { results: [byName] } = await lookup(node("worker-1"));
  assert.ok(byName?.outcome?.$case === "found");
  const { providerId } = byName.outcome.value;
  const { results } = await lookup(
    node("renamed", { providerId }), node("stopped"), node("gone"), node("gone-id", { providerId: "memory://i-000000000000" }),
    node("foreign", { providerId: "aws:///eu/i-1" }), node("odd", { providerId: "memory://x" }),
  );
  const outcomes = results.map(({ key, outcome }) => {
    switch (outcome?.$case) {
      case "found": return `${key} ${outcome.value.nodeName} ${PowerState[outcome.value.powerState]}`;
      case "absent": return `${key} ${AbsenceCertainty[outcome.value.certainty]}`;
      case "error": return `${key} ${reasonOf(outcome.value)}`;
      default: return `${key} ${String(outcome?.$case)}`;
    }
  });
  assert.deepEqual(outcomes, [
    "renamed worker-1 RUNNING", "stopped stopped SHUTDOWN", "gone CONFIRMED", "gone-id CONFIRMED",
    "foreign notManaged", "odd 3 cloudprovider.v1 MALFORMED_PROVIDER_ID",
  ]);
});

test("a load balancer is made once, found, changed, and removed twice", async () => {
  const web = service("web", { ipFamilies: ["IPv4", "IPv6"] });
  assert.equal((await get(web)).answer?.disposition, D.ABSENT);
  const answers = await Promise.all([ensure(web), ensure(web), ensure(web)]);
  assert.equal(new Set(answers.map(({ answer }) => answer?.identity?.id)).size, 1);
  const ips = await ready(web);
  assert.deepEqual(ips.map((ip) => ip.includes(":")), [false, true]);
  assert.equal((await get(web, inline())).answer?.disposition, D.READY);
  const differs = (await get(web, inline(nodeAt("a", "10.0.0.1")))).answer;
  assert.deepEqual([differs?.disposition, differs?.message], [D.DIFFERS, "targets"]);
  const [port] = web.ports;
  assert.ok(port);
  const moved = { ...web, ports: [{ ...port, port: 81 }] };
  assert.equal((await get(moved)).answer?.message, "ports");
  assert.deepEqual(await ready(moved), ips);
  assert.deepEqual(await owned(), ["web"]);
  for (let i = 0; i < 2; i++) assert.equal((await remove(web)).answer?.disposition, D.ABSENT);
  assert.deepEqual(await owned(), []);
});

test("a load balancer of an earlier process gets the address that its Service has, a new one none that is held", async () => {
  const status = { ingress: [{ ip: "198.18.0.77", hostname: "", ipMode: undefined, ports: [] }] };
  const old = service("old", { status });
  assert.deepEqual(await ready(old), ["198.18.0.77"]);
  const fresh = service("fresh");
  assert.deepEqual(await ready(fresh, inline(), ["198.18.0.1", "198.18.0.2", "198.18.0.77"]), ["198.18.0.3"]);
  await Promise.all([remove(old), remove(fresh)]);
});

test("a Service that cannot be served is refused with its reason, and nothing is made", async () => {
  const port = { name: "", protocol: "TCP", port: 80, nodePort: 30080, targetPort: "80", appProtocol: undefined };
  for (const [fields, reason] of [
    [{ ports: [{ ...port, protocol: "SCTP" }] }, "UNSUPPORTED_PROTOCOL"],
    [{ ports: [{ ...port, nodePort: 0 }] }, "UNSUPPORTED_FEATURE"],
    [{ loadBalancerIp: "192.0.2.1" }, "UNSUPPORTED_FEATURE"],
    [{ annotations: { "memory.example/idle-seconds": "soon" } }, "INVALID_ANNOTATION"],
    [{ uid: "" }, "INVALID_REQUEST"],
  ] as const) {
    assert.equal(await refusal(ensure(service("bad", fields as object))), `3 cloudprovider.v1 ${reason}`);
  }
  assert.equal(await refusal(ensure(service("bad"), inline(), [], { ...context, clusterUid: "" })), "3 cloudprovider.v1 INVALID_REQUEST");
  assert.equal(await refusal(ensure(service("bad"), { targets: undefined })), "3 cloudprovider.v1 INVALID_REQUEST");
  assert.equal((await ensure(service("bad", { loadBalancerClass: "other" }))).answer?.disposition, D.NOT_MANAGED);
  assert.deepEqual(await owned(), []);
});

test("an update answers for each Service, changes targets and makes nothing", async () => {
  const here = service("here");
  await ready(here);
  const targets = inline(nodeAt("a", "10.0.0.2"), nodeAt("b", "10.0.0.1"));
  const dispositions = await update([here, service("none"), service("other", { loadBalancerClass: "other" })], targets);
  assert.deepEqual(dispositions, new Map([["uid-here", D.READY], ["uid-none", D.ABSENT], ["uid-other", D.NOT_MANAGED]]));
  assert.equal((await get(here, targets)).answer?.disposition, D.READY);
  assert.deepEqual(await owned(), ["here"]);
  const many = Array.from({ length: 100 }, (_, i) => service(`none-${String(i)}`));
  assert.equal((await update(many, targets)).size, 100);
  await remove(here);
});

type Part = NonNullable<SyncNodeSetRequest["part"]>;
const begin = (revision: string, nodeCount: number): Part => ({ $case: "begin", value: { context, setId: "set", baseRevision: "", revision, nodeCount } });
const chunk = (...names: string[]): Part => ({ $case: "chunk", value: { upserts: names.map((name) => nodeAt(name, `10.9.0.${name}`)), removals: [] } });
const commit = (changeCount: number): Part => ({ $case: "commit", value: { changeCount } });
const sync = (...parts: Part[]) => new Promise((resolve, reject) => {
  const call = all.nodeSets.syncNodeSet((error, answer) => { if (error) reject(error); else resolve(answer.revision); });
  for (const part of parts) call.write({ part });
  call.end();
});

test("a node set is applied whole or not at all; the two latest revisions are held", async () => {
  const held = service("held");
  assert.equal(await refusal(ensure(held, named("1"))), "9 cloudprovider.v1 NODE_SET_UNKNOWN");
  assert.equal(await sync(begin("1", 2), chunk("1"), chunk("2"), commit(2)), "1");
  await ready(held, named("1"));
  assert.equal((await get(held, inline(nodeAt("x", "10.9.0.1"), nodeAt("y", "10.9.0.2")))).answer?.disposition, D.READY);
  for (const parts of [
    [],
    [chunk("1"), commit(1)],
    [begin("bad", 1), chunk("1")],
    [begin("bad", 2), chunk("1"), commit(1)],
    [begin("bad", 1), chunk("1"), commit(2)],
    [begin("bad", 1), chunk("1", "1"), commit(1)],
  ]) {
    assert.equal(await refusal(sync(...parts)), "3 cloudprovider.v1 INVALID_REQUEST");
  }
  assert.equal(await refusal(ensure(held, named("bad"))), "9 cloudprovider.v1 NODE_SET_UNKNOWN");
  assert.equal(await sync(begin("2", 1), chunk("3"), commit(1)), "2");
  assert.equal((await get(held, named("1"))).answer?.disposition, D.READY);
  assert.equal((await get(held, named("2"))).answer?.disposition, D.DIFFERS);
  assert.equal(await sync(begin("1", 2), chunk("1", "2"), commit(2)), "1");
  assert.equal(await sync(begin("3", 0), commit(0)), "3");
  assert.equal(await refusal(ensure(held, named("2"))), "9 cloudprovider.v1 NODE_SET_UNKNOWN");
  assert.equal((await get(held, named("1"))).answer?.disposition, D.READY);
  await remove(held);
});

test("an upload that is cancelled before its commit applies nothing", async () => {
  const call = all.nodeSets.syncNodeSet(() => undefined);
  call.write({ part: begin("cancelled", 1) });
  call.write({ part: chunk("1") });
  await lookup(node("worker-1"));
  call.cancel();
  await lookup(node("worker-1"));
  assert.equal(await refusal(ensure(service("s"), named("cancelled"))), "9 cloudprovider.v1 NODE_SET_UNKNOWN");
});

test("calls that are cancelled at any moment leave what the next call completes", async () => {
  const cut = service("cut");
  for (let ms = 0; ms < 20; ms++) {
    const call = balancers().ensureLoadBalancer({ context, service: cut, targets: inline(), heldAddresses: undefined }, () => undefined);
    setTimeout(() => { call.cancel(); }, ms);
    await new Promise((resolve) => call.on("status", resolve));
  }
  assert.equal((await ready(cut)).length, 1);
  assert.deepEqual(await owned(), ["cut"]);
  await remove(cut);
});

test("a message of the size that was named is read; one byte more is refused, and the connection serves on", async () => {
  const { maxReceiveMessageBytes } = await ask(all.provider.handshake.bind(all.provider), {
    minMinor: 1, maxMinor: 1, controllerName: "", controllerVersion: "", kubernetesVersion: "", cluster: undefined, maxReceiveMessageBytes: 0,
  });
  const asks = (bytes: number) => get(service("large", { annotations: { k: "x".repeat(bytes) } }));
  await asks(maxReceiveMessageBytes - 300);
  assert.match(await refusal(asks(maxReceiveMessageBytes)), /^8 without details/);
  await lookup(node("worker-1"));
});
