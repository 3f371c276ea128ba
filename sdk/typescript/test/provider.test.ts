/** Tests of the services over handlers that answer well, badly, late and never. */
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { type TestContext, test } from "node:test";
import { Client, type ClientReadableStream, credentials, loadPackageDefinition } from "@grpc/grpc-js";
import { service as healthService } from "grpc-health-check";
import { type Answer, Batcher, type Call, each, type Instances, type LoadBalancers, ProviderError, type Provider, type Result, type Routes, v1 } from "../src/index.js";
import { canonicalCidr } from "../src/routes.js";
import { ask, context, eventually, inline, node, reasonOf, refusal, served, service, statusOf } from "./harness.js";

const { READY, ABSENT, NOT_MANAGED } = v1.LoadBalancerDisposition;

/** Lookups of Nodes, answered by this handler. */
async function lookups(t: TestContext, batchGetInstances: Instances["batchGetInstances"], provider: Partial<Provider> = {}) {
  const all = await served(t, { ...provider, instances: { batchGetInstances } });
  const lookup = (...names: string[]) => ask(all.instances.batchGetInstances.bind(all.instances),
    { context, items: names.map((name) => node(name)), maxStaleness: undefined, view: v1.InstanceView.FULL });
  const outcomes = async (...names: string[]) => (await lookup(...names)).results.map(({ key, outcome }) => {
    switch (outcome?.$case) {
      case "error": return `${key} ${reasonOf(outcome.value)}`;
      case "absent": return `${key} ${v1.AbsenceCertainty[outcome.value.certainty]}`;
      default: return `${key} ${String(outcome?.$case)}`;
    }
  });
  return { all, lookup, outcomes };
}

/** The lines of this process's log, which go on to stderr no more. */
function logOf(t: TestContext): string[] {
  const lines: string[] = [];
  t.mock.method(process.stderr, "write", (line: string) => lines.push(line) > 0);
  return lines;
}

test("each node has the answer of its handler", async (t) => {
  const { lookup, outcomes } = await lookups(t, () => new Map<string, Result<v1.Instance>>([
    ["found", { found: { providerId: "test://1", nodeName: "found" }, effects: { removeAnnotations: ["example.com/a"] } }],
    ["gone", { absent: "CONFIRMED" }],
    ["cached", { absent: "NOT_VISIBLE_YET", ageSeconds: 1.5, reason: "a cache" }],
    ["foreign", { notManaged: "another cloud's" }],
    ["bad", { error: new ProviderError("MALFORMED_PROVIDER_ID", "no ID", { effects: { removeAnnotations: ["example.com/b"] } }) }],
  ]));
  assert.deepEqual(await outcomes("found"), [
    "found found", "gone CONFIRMED", "cached NOT_VISIBLE_YET", "foreign notManaged", "bad MALFORMED_PROVIDER_ID: no ID",
  ]);
  const { results } = await lookup("found");
  assert.deepEqual(results[2]?.outcome, { $case: "absent", value: { certainty: 2, age: { seconds: 1, nanos: 500_000_000 }, reason: "a cache" } });
  assert.deepEqual(results.map(({ effects }) => effects?.removeAnnotations), [["example.com/a"], undefined, undefined, undefined, ["example.com/b"]]);
});

test("an exception is logged once and answered without its text", async (t) => {
  const lines = logOf(t);
  let isThrown = true;
  const { lookup, outcomes } = await lookups(t, () => {
    const error = new Error("the token is s3cret");
    if (isThrown) throw error;
    return [["a", { error }]];
  });
  assert.match(await refusal(lookup("a")), /^13: the provider failed: look for request id r-1 in its log$/);
  assert.equal(lines.length, 1);
  assert.match(lines[0] ?? "", /"level":"ERROR","message":"the provider's code threw".*"handler":"BatchGetInstances".*s3cret/);
  isThrown = false;
  assert.deepEqual(await outcomes("a"), ["a 13: the provider failed: look for request id r-1 in its log"]);
  assert.equal(lines.length, 2);
});

test("lookups one by one: what is there is answered before the deadline, and a limit of the cloud ends the rest", async (t) => {
  const batch: Instances["batchGetInstances"] = (nodes, call) => each(call, nodes, async ({ name }) => {
    if (name === "hangs") await sleep(20_000, undefined, { signal: call.signal });
    if (name === "throws") throw new ProviderError("CLOUD_ERROR", "404");
    if (name.startsWith("limited")) throw new ProviderError("RATE_LIMITED", "429", { retryAfter: 7 });
    return { absent: "CONFIRMED" };
  }, 1);
  const { all, outcomes } = await lookups(t, batch);
  const items = ["a", "hangs"].map((name) => node(name));
  const { results } = await ask(all.instances.batchGetInstances.bind(all.instances), { context, items, maxStaleness: undefined, view: v1.InstanceView.FULL }, 10_000);
  const hung = results.find(({ key }) => key === "hangs")?.outcome;
  assert.equal(hung?.$case === "error" && hung.value.code, 4);
  assert.deepEqual((await outcomes("a", "throws")).sort(), ["a CONFIRMED", "throws CLOUD_ERROR: 404"]);
  assert.deepEqual(await outcomes("limited-1", "limited-2"), ["limited-1 RATE_LIMITED: 429", "limited-2 RATE_LIMITED: 429"]);
});

test("GetStatus is DEGRADED after the cloud as a whole has failed a call, until one succeeds", async (t) => {
  let error: unknown = new ProviderError("CREDENTIALS_INVALID", "401");
  const { all, lookup } = await lookups(t, (nodes) => nodes.map(({ name }) => [name, error ? { error } : { absent: "CONFIRMED" as const }] as const));
  const status = () => ask(all.provider.getStatus.bind(all.provider), {});
  assert.equal((await status()).readiness, v1.Readiness.READY);
  await lookup("a");
  const { readiness, dependencies: [dependency] } = await status();
  assert.deepEqual([readiness, dependency?.name, dependency?.message], [v1.Readiness.DEGRADED, "cloud", "401"]);
  error = undefined;
  await lookup("a");
  assert.equal((await status()).readiness, v1.Readiness.READY);
});

test("a status that throws is BROKEN", async (t) => {
  logOf(t);
  const all = await served(t, { status: () => { throw new Error("defect"); } });
  assert.equal((await ask(all.provider.getStatus.bind(all.provider), {})).readiness, v1.Readiness.BROKEN);
});

test("a cancelled lookup has its signal aborted; a cancelled change is not cut off, but begins no further one", async (t) => {
  const ends: unknown[] = [];
  const wait = async (call: Call) => {
    await new Promise((resolve) => { call.callerGone.addEventListener("abort", resolve); });
    ends.push([call.rpc, call.signal.aborted]);
    call.check();
    ends.push("not reached");
  };
  const all = await served(t, { instances: { batchGetInstances: async (_, call) => { await wait(call); return []; } }, loadBalancers: balancers({
    ensureLoadBalancer: async (_, __, call) => { await wait(call); return { disposition: READY }; },
  }) });
  for (const call of [
    all.instances.batchGetInstances({ context, items: [node("a")], maxStaleness: undefined, view: v1.InstanceView.FULL }, () => undefined),
    all.loadBalancers.ensureLoadBalancer({ context, service: service("a"), targets: inline(), identity: undefined }, () => undefined),
  ]) {
    const length = ends.length;
    await ask(all.provider.getStatus.bind(all.provider), {});
    setTimeout(() => { call.cancel(); }, 50);
    await eventually(() => ends.length > length || undefined);
  }
  assert.deepEqual(ends, [["BatchGetInstances", true], ["EnsureLoadBalancer", false]]);
});

test("a deadline ends the wait of a handler for its caller", async (t) => {
  let isGone = false;
  const { all } = await lookups(t, async (_, call) => {
    await new Promise((resolve) => { call.callerGone.addEventListener("abort", resolve); });
    isGone = true;
    return [];
  });
  const late = ask(all.instances.batchGetInstances.bind(all.instances), { context, items: [node("a")], maxStaleness: undefined, view: v1.InstanceView.FULL }, 200);
  assert.equal((await statusOf(late)).code, 4);
  await eventually(() => isGone || undefined);
});

/** Load balancers of which a test gives the methods that it is about. */
function balancers(methods: Partial<LoadBalancers>): LoadBalancers {
  const ready = (): Answer => ({ disposition: READY, status: { ingress: [{ ip: "192.0.2.1" }] } });
  return {
    getLoadBalancer: ready, ensureLoadBalancer: ready, updateLoadBalancerNodes: ready, deleteLoadBalancer: () => ({ disposition: ABSENT }), ...methods,
  };
}

test("one change of a Service runs at a time, and of all no more than declared", async (t) => {
  const running = new Set<string>();
  let most = 0;
  const work = async ({ uid }: v1.Service) => {
    assert.ok(!running.has(uid));
    running.add(uid);
    most = Math.max(most, running.size);
    await sleep(10);
    running.delete(uid);
    return { disposition: READY };
  };
  const all = await served(t, { loadBalancers: balancers({ capability: { maxInFlight: 2 }, ensureLoadBalancer: work, updateLoadBalancerNodes: work }) });
  const request = (name: string) => ({ context, service: service(name), targets: inline(), identity: undefined });
  const ensure = (name: string) => ask(all.loadBalancers.ensureLoadBalancer.bind(all.loadBalancers), request(name));
  const update = (name: string) => ask(all.loadBalancers.updateLoadBalancerNodes.bind(all.loadBalancers), request(name));
  const names = ["a", "b", "c", "a", "b", "c"];
  await Promise.all<unknown>([...names.map(ensure), ...names.map(update)]);
  assert.equal(most, 2);
});

test("a handler gets the identity of the last answer as a hint", async (t) => {
  const all = await served(t, { loadBalancers: balancers({ deleteLoadBalancer: (_, call) => ({ disposition: ABSENT, message: call.identity?.id ?? "none" }) }) });
  const remove = (identity: v1.LoadBalancerIdentity | undefined) =>
    ask(all.loadBalancers.deleteLoadBalancer.bind(all.loadBalancers), { context, service: service("a"), identity });
  assert.equal((await remove({ id: "lb-1", name: "" })).answer?.message, "lb-1");
  assert.equal((await remove(undefined)).answer?.message, "none");
});

test("Services of other classes are not touched, and one without a UID is refused", async (t) => {
  const all = await served(t, { loadBalancers: balancers({}) });
  const ensure = (one: v1.Service) => ask(all.loadBalancers.ensureLoadBalancer.bind(all.loadBalancers),
    { context, service: one, targets: inline(), identity: undefined });
  assert.equal((await ensure(service("a"))).answer?.disposition, READY);
  assert.equal((await ensure(service("a", { loadBalancerClass: "other" }))).answer?.disposition, NOT_MANAGED);
  assert.match(await refusal(ensure(service("a", { uid: "" }))), /^INVALID_REQUEST: the request has no Service/);
});

test("a list comes in parts of limited size, the last of them complete; an exception leaves it incomplete", async (t) => {
  let fails = false;
  const zone = "z".repeat(700_000);
  const all = await served(t, { instances: {
    batchGetInstances: () => [],
    * listInstances() {
      for (const providerId of ["1", "2", "3"]) yield { providerId, zone };
      if (fails) throw new ProviderError("CLOUD_ERROR", "page 2");
    },
  } });
  const parts: [number, boolean][] = [];
  const list = async () => {
    parts.length = 0;
    const stream = all.instances.listInstances({ context, maxStaleness: undefined, view: v1.InstanceView.FULL }) as AsyncIterable<v1.ListInstancesResponse>;
    for await (const { items, complete } of stream) parts.push([items.length, complete]);
  };
  await list();
  assert.deepEqual(parts, [[1, false], [1, false], [1, true]]);
  fails = true;
  assert.equal(await refusal(list()), "CLOUD_ERROR: page 2");
  assert.ok(parts.every(([, complete]) => !complete));
});

test("a route is made and removed; a change of its destination waits for another one, in whichever spelling", async (t) => {
  let release: () => void = () => undefined;
  const released = new Promise<void>((resolve) => { release = resolve; });
  let begin: () => void = () => undefined;
  const begun = new Promise<void>((resolve) => { begin = resolve; });
  const order: string[] = [];
  const routes: Routes = {
    * listRoutes() { yield { destinationCidr: "fd00::/64" }; },
    createRoute: async (route) => {
      begin();
      await released;
      order.push("made");
      return { found: { ...route, name: "made" } };
    },
    deleteRoute: ({ destinationCidr }) => {
      order.push(`removed ${destinationCidr}`);
      return { effects: { removeAnnotations: ["example.com/a"] } };
    },
  };
  const all = await served(t, { routes });
  const request = (destinationCidr: string) => ({ context, route: v1.Route.fromPartial({ destinationCidr }) });
  const created = ask(all.routes.createRoute.bind(all.routes), request("fd00::/64"));
  await begun;
  const remove = (cidr: string) => ask(all.routes.deleteRoute.bind(all.routes), request(cidr));
  const removed = remove("FD00:0:0:0::/64");
  await remove("10.1.0.0/24");
  release();
  assert.equal((await created).found?.name, "made");
  const { absent, effects } = await removed;
  assert.deepEqual([absent?.certainty, effects?.removeAnnotations], [v1.AbsenceCertainty.CONFIRMED, ["example.com/a"]]);
  assert.deepEqual(order, ["removed 10.1.0.0/24", "made", "removed FD00:0:0:0::/64"]);
});

test("a destination has one key in all spellings", () => {
  for (const [a, b, isEqual] of [
    ["10.1.0.0/24", "10.1.0.0/25", false], ["fd00::/64", "fd00:0:0:0::/064", true],
    ["fd00::/64", "fd00:0:0:1::/64", false], ["::ffff:10.0.0.1/128", "::ffff:a00:1/128", true], ["not a CIDR", "not a CIDR", true],
  ] as const) {
    assert.equal(canonicalCidr(a) === canonicalCidr(b), isEqual, `${a} and ${b}`);
  }
});

test("callers that wait together share one call of the cloud, which begins after each of them has come", async () => {
  const calls: (readonly string[])[] = [];
  const batcher = new Batcher(async (items: readonly string[]) => {
    calls.push(items);
    await sleep(10);
    if (items.includes("bad")) throw new ProviderError("CLOUD_ERROR", "422");
    return items.map((item) => item.toUpperCase());
  }, 3);
  const first = [batcher.call("a"), batcher.call("b")];
  await sleep(5);
  const later = ["c", "d", "e", "bad", "f"].map((item) => batcher.call(item));
  assert.deepEqual(await Promise.all(first), ["A", "B"]);
  const ends = await Promise.allSettled(later);
  assert.deepEqual(ends.map(({ status }) => status), ["fulfilled", "fulfilled", "fulfilled", "rejected", "rejected"]);
  assert.deepEqual(calls, [["a", "b"], ["c", "d", "e"], ["bad", "f"]]);
  assert.equal(await batcher.call("g"), "G");
});

test("a shared call that never ends keeps no later one from beginning", async () => {
  const batcher = new Batcher((items: readonly string[]) => items.includes("hangs") ? new Promise<string[]>(() => undefined) : Promise.resolve([...items]));
  const leave = new AbortController();
  setTimeout(() => { leave.abort(); }, 10);
  await assert.rejects(batcher.call("hangs", leave.signal), /all callers have left/);
  assert.equal(await batcher.call("a"), "a");
});

test("a watch of the health hears of each change once", async (t) => {
  let readiness = v1.Readiness.READY;
  const all = await served(t, { status: () => ({ readiness }) });
  const health = loadPackageDefinition({ Health: healthService }).Health as typeof Client;
  const client = new health(`unix:${all.path}`, credentials.createInsecure(), { "grpc.default_authority": "localhost" });
  t.after(() => { client.close(); });
  const states: string[] = [];
  const watch = (client as unknown as { watch(request: object): ClientReadableStream<{ status: string }> }).watch({ service: "" });
  watch.on("data", ({ status }: { status: string }) => states.push(status)).on("error", () => undefined);
  await eventually(() => states.length > 0 || undefined);
  await sleep(2_500);
  readiness = v1.Readiness.BROKEN;
  await eventually(() => states.length > 1 || undefined);
  assert.deepEqual(states, ["SERVING", "NOT_SERVING"]);
});
