/** Tests of the services over handlers that answer well, badly, late and never. */
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { type TestContext, test } from "node:test";
import { Client, type ClientReadableStream, credentials, loadPackageDefinition } from "@grpc/grpc-js";
import { service as healthService } from "grpc-health-check";
import { canonicalCidr } from "../src/routes.js";
import { type Answer, type Call, each, type Instances, type LoadBalancers, ProviderError, type Provider, type Results, type Routes, serve, v1 } from "../src/index.js";
import { RetryInfo } from "../src/gen/google/rpc/error_details.js";
import { ask, context, eventually, inline, node, range, reasonOf, refusal, served, service, statusOf, temporarySocket } from "./harness.js";

const { READY, ABSENT, NOT_MANAGED, IN_PROGRESS } = v1.LoadBalancerDisposition;

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

test("each item has one result, whatever the handler returns", async (t) => {
  const { outcomes } = await lookups(t, () => new Map<string, never>([
    ["found", { found: { providerId: "test://1", nodeName: "found" } } as never],
    ["gone", { absent: "CONFIRMED" } as never],
    ["cached", { absent: "CONFIRMED", ageSeconds: 3600 } as never],
    ["foreign", { notManaged: "another cloud's" } as never],
    ["bad", { error: new ProviderError("MALFORMED_PROVIDER_ID", "no ID") } as never],
    ["empty", {} as never],
    ["none", { found: null } as never],
    ["odd", { found: { zone: 5 } } as never],
    ["list", { found: { addresses: "10.0.0.1" } } as never],
    ["not asked about", { absent: "CONFIRMED" } as never],
  ]));
  assert.deepEqual(await outcomes("found", "gone", "cached", "foreign", "bad", "missing", "empty", "none", "odd", "list"), [
    "found found", "gone CONFIRMED", "cached NOT_VISIBLE_YET", "foreign notManaged", "bad MALFORMED_PROVIDER_ID: no ID",
    "missing 13: the provider returned no result for this item",
    "empty 13: the result has none of found, absent, notManaged and error",
    "none 13: the result is null, not an object",
    "odd 13: the result has a value of a wrong type in zone",
    "list 13: the result does not have the fields that the contract says: object.addresses?.map is not a function",
  ]);
});

test("an answer that is none is an error that says so, and the provider serves on", async (t) => {
  let answer: unknown;
  const { lookup, outcomes } = await lookups(t, () => answer as Results<v1.Instance>);
  for (answer of [undefined, 5, {}]) assert.match(await refusal(lookup("a")), /^13: BatchGetInstances answered (undefined|number|object), not results/);
  answer = new Map([["a", { absent: "CONFIRMED" }]]);
  assert.deepEqual(await outcomes("a"), ["a CONFIRMED"]);
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
  assert.deepEqual([readiness, dependency?.name, dependency?.message], [v1.Readiness.DEGRADED, "credentials", "401"]);
  error = undefined;
  await lookup("a");
  assert.equal((await status()).readiness, v1.Readiness.READY);
});

test("a status that throws is BROKEN, one that is too long is cut", async (t) => {
  logOf(t);
  const all = await served(t, { status: () => { throw new Error("defect"); } });
  assert.equal((await ask(all.provider.getStatus.bind(all.provider), {})).readiness, v1.Readiness.BROKEN);
  const dependency = { name: "n".repeat(100), message: "é".repeat(1000) };
  const other = await served(t, { status: () => ({ readiness: v1.Readiness.DEGRADED, dependencies: Array.from({ length: 40 }, () => dependency) }) });
  const { dependencies } = await ask(other.provider.getStatus.bind(other.provider), {});
  assert.equal(dependencies.length, 32);
  assert.deepEqual([dependencies[0]?.name.length, Buffer.byteLength(dependencies[0]?.message ?? "") <= 1024], [61, true]);
});

test("a message of the size that was named is read; a larger one is INVALID_REQUEST, and the connection serves on", async (t) => {
  const { all, lookup } = await lookups(t, (nodes) => nodes.map(({ name }) => [name, { absent: "CONFIRMED" as const }] as const));
  const { maxReceiveMessageBytes } = await ask(all.provider.handshake.bind(all.provider), range);
  const asks = (bytes: number) => ask(all.instances.batchGetInstances.bind(all.instances),
    { context, items: [node("a", { annotations: { k: "x".repeat(bytes) } })], maxStaleness: undefined, view: v1.InstanceView.FULL });
  await asks(maxReceiveMessageBytes - 300);
  assert.match(await refusal(asks(maxReceiveMessageBytes)), /^INVALID_REQUEST: the request is larger than the 4194304 bytes/);
  await lookup("a");
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
    all.loadBalancers.ensureLoadBalancer({ context, service: service("a"), targets: inline() }, () => undefined),
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

async function update(all: Awaited<ReturnType<typeof served>>, names: string[]): Promise<string[]> {
  const stream = all.loadBalancers.updateLoadBalancerNodes({ context, items: names.map((name) => service(name)), targets: inline() });
  const results: string[] = [];
  for await (const part of stream as AsyncIterable<v1.UpdateLoadBalancerNodesResponse>) {
    for (const { key, outcome } of part.results) results.push(`${key} ${outcome?.$case === "error" ? reasonOf(outcome.value) : String(outcome?.$case)}`);
  }
  return results.sort();
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
  const ensure = (name: string) => ask(all.loadBalancers.ensureLoadBalancer.bind(all.loadBalancers),
    { context, service: service(name), targets: inline() });
  await Promise.all(["a", "b", "c", "a", "b", "c", "a", "b", "c"].map(ensure).concat(update(all, ["a", "b", "c"]) as never));
  assert.equal(most, 2);
});

test("an update answers for each Service; an error of one is its own, one of the whole cloud that of the rest", async (t) => {
  const all = await served(t, { loadBalancers: balancers({
    updateConcurrency: 1,
    updateLoadBalancerNodes: ({ name }) => {
      if (name.startsWith("bad")) throw new ProviderError("CLOUD_ERROR", "422");
      if (name.startsWith("limited")) throw new ProviderError("RATE_LIMITED", "429");
      return { disposition: READY };
    },
  }) });
  assert.deepEqual(await update(all, ["bad", "good"]), ["uid-bad CLOUD_ERROR: 422", "uid-good found"]);
  assert.deepEqual(await update(all, ["limited", "good"]), ["uid-good RATE_LIMITED: 429", "uid-limited RATE_LIMITED: 429"]);
});

test("an answer that a method may not give is an error; other classes are not touched", async (t) => {
  const all = await served(t, { loadBalancers: balancers({
    ensureLoadBalancer: ({ name }) => ({ disposition: name === "odd" ? ABSENT : IN_PROGRESS, retryAfter: { seconds: 3600 } }),
    deleteLoadBalancer: () => undefined as never,
  }) });
  const ensure = (one: v1.Service) => ask(all.loadBalancers.ensureLoadBalancer.bind(all.loadBalancers),
    { context, service: one, targets: inline() });
  assert.match(await refusal(ensure(service("odd"))), /^13: the provider answered EnsureLoadBalancer with ABSENT, which is no answer to it/);
  assert.equal((await ensure(service("a"))).answer?.retryAfter?.seconds, 300);
  assert.equal((await ensure(service("a", { loadBalancerClass: "other" }))).answer?.disposition, NOT_MANAGED);
  assert.match(await refusal(ask(all.loadBalancers.deleteLoadBalancer.bind(all.loadBalancers), { context, service: service("a") })),
    /^13: the answer is undefined, not an object/);
  assert.match(await refusal(ensure(service("a", { uid: "" }))), /^INVALID_REQUEST: the request has no Service/);
});

test("a method that is not there is not declared, and refused", async (t) => {
  const all = await served(t, { instances: { batchGetInstances: () => [] }, loadBalancers: balancers({ planLoadBalancer: () => [] }) });
  const { capabilities } = await ask(all.provider.handshake.bind(all.provider), range);
  assert.deepEqual([capabilities?.instances?.list, capabilities?.loadBalancers?.list, capabilities?.loadBalancers?.plan, capabilities?.routes], [false, false, true, undefined]);
  const list = async () => {
    for await (const part of all.instances.listInstances({ context, maxStaleness: undefined, view: v1.InstanceView.FULL }) as AsyncIterable<object>) assert.fail(JSON.stringify(part));
  };
  assert.match(await refusal(list()), /^CAPABILITY_DISABLED/);
  await ask(all.loadBalancers.planLoadBalancer.bind(all.loadBalancers), { context, operation: v1.PlanOperation.DELETE, service: service("a"), targets: undefined });
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

test("routes: made and removed by key; one that another call changes is refused for a second", async (t) => {
  let release: () => void = () => undefined;
  const routes: Routes = {
    * listRoutes() { yield { destinationCidr: "10.1.0.0/24" }; },
    batchCreateRoutes: async (items) => {
      if (items.some(({ nodeName }) => nodeName === "slow")) await new Promise<void>((resolve) => { release = resolve; });
      return items.map((route) => [route.destinationCidr, { found: { ...route, name: "made" } }] as const);
    },
    batchDeleteRoutes: (items) => items.map((route) => [route.destinationCidr, { found: route }] as const),
  };
  const all = await served(t, { routes });
  const route = (destinationCidr: string, nodeName: string) => v1.Route.fromPartial({ destinationCidr, nodeName });
  const create = (...items: v1.Route[]) => ask(all.routes.batchCreateRoutes.bind(all.routes), { context, items });
  const slow = create(route("10.1.0.0/24", "slow"));
  await eventually(() => release.length === 1 || undefined).catch(() => undefined);
  const { results: [busy, other] } = await create(route("10.1.0.7/24", "a"), route("10.2.0.0/24", "b"));
  assert.ok(busy?.outcome?.$case === "error");
  assert.match(reasonOf(busy.outcome.value), /^OPERATION_IN_PROGRESS/);
  const retry = busy.outcome.value.details[1];
  assert.equal(retry && RetryInfo.decode(retry.value).retryDelay?.seconds, 1);
  assert.equal(other?.outcome?.$case === "found" && other.outcome.value.name, "made");
  release();
  assert.equal((await slow).results[0]?.outcome?.$case, "found");
  const { results: [removed] } = await ask(all.routes.batchDeleteRoutes.bind(all.routes), { context, items: [route("10.1.0.0/24", "a")] });
  assert.equal(removed?.outcome?.$case, "absent");
});

test("a destination has one key in all spellings", () => {
  for (const [a, b, isEqual] of [
    ["10.1.0.7/24", "10.1.0.0/24", true], ["10.1.0.0/24", "10.1.0.0/25", false], ["fd00::1/64", "fd00:0:0:0::/64", true],
    ["fd00::/64", "fd00:0:0:1::/64", false], ["::/0", "1::/0", true], ["::ffff:10.0.0.1/128", "::ffff:a00:1/128", true], ["not a CIDR", "not a CIDR", true],
  ] as const) {
    assert.equal(canonicalCidr(a) === canonicalCidr(b), isEqual, `${a} and ${b}`);
  }
});

test("volumes are looked up by key", async (t) => {
  const all = await served(t, { volumes: { batchGetVolumes: (volumes) => volumes.map(({ key }) => [key, { found: { labels: { zone: "z1" } } }] as const) } });
  const items = [v1.Volume.fromPartial({ key: "vol-1", source: { source: { $case: "csi", value: { driver: "d", volumeHandle: "h" } } } })];
  const { results: [result] } = await ask(all.volumes.batchGetVolumes.bind(all.volumes), { context, items });
  assert.deepEqual(result?.outcome?.$case === "found" && result.outcome.value.labels, { zone: "z1" });
});

test("a declaration that the controller would refuse is refused at the start", async () => {
  const endpoint = `unix://${await temporarySocket()}`;
  const batchGetInstances: Instances["batchGetInstances"] = () => [];
  for (const [provider, message] of [
    [{ name: "Not Legal" }, /the name "Not Legal" is not legal/],
    [{ instances: {} }, /instances.batchGetInstances is no function/],
    [{ instances: { batchGetInstances, capability: { maxBatchSize: 501 } } }, /maxBatchSize is 501: use at most 500/],
    [{ instances: { batchGetInstances, capability: { providerIdPrefixes: [""] } } }, /providerIdPrefixes has "": use 1 to 253/],
    [{ instances: { batchGetInstances, capability: { maxBatchSize: "many" } } }, /a capability does not have the fields/],
    [{ loadBalancers: balancers({ capability: { withoutDefaultClass: true } }) }, /without classes serves no Service/],
    [{ loadBalancers: balancers({ capability: { configurationRevision: "x".repeat(65) } }) }, /has 65 bytes: use at most 64/],
    [{ serviceAnnotationPrefixes: Array.from({ length: 65 }, (_, n) => `p${String(n)}`) }, /has 65 entries: use at most 64/],
  ] as const) {
    await assert.rejects(serve({ name: "test", ...provider } as Provider, endpoint, new AbortController().signal), message);
  }
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
