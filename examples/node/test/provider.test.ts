/** Tests of the provider over its cloud: what it answers, without a socket. */
import assert from "node:assert/strict";
import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { type Call, type ProviderError, Targets, v1 } from "@outrigger/provider";
import { Cloud } from "../src/cloud.js";
import { instances } from "../src/instances.js";
import { loadBalancers } from "../src/loadBalancers.js";

const { READY, DIFFERS, IN_PROGRESS, ABSENT } = v1.LoadBalancerDisposition;
const facts = { signal: AbortSignal.timeout(60_000), clusterUid: "uid-of-cluster", check: () => undefined };
const call = facts as unknown as Call;
const query = { view: v1.InstanceView.FULL, maxStaleness: 0 };

const node = (name: string, fields: Partial<v1.Node> = {}) => v1.Node.fromPartial({ name, ...fields });
const nodeAt = (name: string, address: string) => node(name, { addresses: [{ type: "InternalIP", address }] });
const service = (name: string, fields: Partial<v1.Service> = {}) => v1.Service.fromPartial({
  namespace: "default", name, uid: `uid-${name}`, type: "LoadBalancer", ipFamilies: ["IPv4"],
  ports: [{ name: "", protocol: "TCP", port: 80, nodePort: 30080, targetPort: "80" }], ...fields,
});

/** A provider of load balancers, with its calls. */
function balancers(cloud = new Cloud([])) {
  const served = loadBalancers(cloud);
  const targets = (nodes: v1.Node[]) => new Targets(nodes);
  const ensure = async (one: v1.Service, nodes: v1.Node[] = []) => served.ensureLoadBalancer(one, targets(nodes), call);
  return {
    ensure,
    get: async (one: v1.Service, nodes?: v1.Node[]) => served.getLoadBalancer(one, nodes && targets(nodes), call),
    update: async (one: v1.Service, nodes: v1.Node[]) => served.updateLoadBalancerNodes(one, targets(nodes), call),
    remove: async (one: v1.Service) => served.deleteLoadBalancer(one, call),
    owned: async () => {
      const names: (string | undefined)[] = [];
      for await (const one of served.listLoadBalancers?.(call) ?? []) names.push(one.service?.name);
      return names;
    },
    /** Its addresses, once it is active. */
    ready: async (one: v1.Service, nodes: v1.Node[] = []) => {
      for (let n = 0; n < 200; n++) {
        const { disposition, status, retryAfter } = await ensure(one, nodes);
        if (disposition === READY) return status?.ingress?.map(({ ip }) => ip);
        assert.deepEqual([disposition, retryAfter?.seconds], [IN_PROGRESS, 1]);
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
      throw new Error("it does not become ready");
    },
  };
}

test("instances: found by id and name, stopped, absent, another provider's, malformed", async () => {
  const served = instances(new Cloud(["worker-1", "stopped=off"]));
  const lookup = async (...nodes: v1.Node[]) => new Map(await served.batchGetInstances(nodes, call, query));
  const byName = (await lookup(node("worker-1"))).get("worker-1");
  assert.ok(byName && "found" in byName && byName.found.providerId);
  const results = await lookup(
    node("renamed", { providerId: byName.found.providerId }), node("stopped"), node("gone"), node("gone-id", { providerId: "memory://i-000000000000" }),
    node("foreign", { providerId: "aws:///eu/i-1" }), node("odd", { providerId: "memory://x" }),
  );
  const texts = [...results].map(([key, result]) => {
    if ("found" in result) return `${key} ${result.found.nodeName ?? ""} ${v1.PowerState[result.found.powerState ?? 0] ?? ""}`;
    if ("absent" in result) return [key, result.absent].join(" ");
    return "error" in result ? `${key} ${(result.error as ProviderError).reason}` : `${key} not managed`;
  });
  assert.deepEqual(texts, [
    "renamed worker-1 RUNNING", "stopped stopped SHUTDOWN", "gone CONFIRMED", "gone-id CONFIRMED", "foreign not managed", "odd MALFORMED_PROVIDER_ID",
  ]);
  const names: (string | undefined)[] = [];
  for await (const one of served.listInstances?.(call, query) ?? []) names.push(one.nodeName);
  assert.deepEqual(names, ["worker-1", "stopped"]);
});

test("a load balancer is made once, found, changed, and removed twice", async () => {
  const { ensure, get, ready, remove, owned } = balancers();
  const web = service("web", { ipFamilies: ["IPv4", "IPv6"] });
  assert.equal((await get(web)).disposition, ABSENT);
  const { identity } = await ensure(web);
  assert.deepEqual((await ensure(web)).identity, identity);
  const ips = await ready(web);
  assert.deepEqual(ips?.map((ip) => ip?.includes(":")), [false, true]);
  assert.equal((await get(web, [])).disposition, READY);
  const differs = await get(web, [nodeAt("a", "10.0.0.1")]);
  assert.deepEqual([differs.disposition, differs.message], [DIFFERS, "targets"]);
  const moved = { ...web, ports: web.ports.map((port) => ({ ...port, port: 81 })) };
  assert.equal((await get(moved)).message, "ports");
  assert.deepEqual(await ready(moved), ips);
  assert.deepEqual(await owned(), ["web"]);
  for (let i = 0; i < 2; i++) assert.equal((await remove(web)).disposition, ABSENT);
  assert.deepEqual(await owned(), []);
});

test("a load balancer of an earlier process gets the address that its Service has", async () => {
  const { ready } = balancers();
  const status = { ingress: [{ ip: "198.18.0.77", hostname: "", ipMode: undefined, ports: [] }] };
  assert.deepEqual(await ready(service("old", { status })), ["198.18.0.77"]);
});

test("a Service that cannot be served is refused with its reason, and nothing is made", async () => {
  const { ensure, owned } = balancers();
  const port = { name: "", protocol: "TCP", port: 80, nodePort: 30080, targetPort: "80", appProtocol: undefined };
  for (const [fields, reason] of [
    [{ ports: [{ ...port, protocol: "SCTP" }] }, "UNSUPPORTED_PROTOCOL"],
    [{ ports: [{ ...port, nodePort: 0 }] }, "UNSUPPORTED_FEATURE"],
    [{ loadBalancerIp: "192.0.2.1" }, "UNSUPPORTED_FEATURE"],
    [{ annotations: { "memory.example/idle-seconds": "soon" } }, "INVALID_ANNOTATION"],
  ] as const) {
    await assert.rejects(ensure(service("bad", fields as object)), { reason });
  }
  assert.deepEqual(await owned(), []);
});

test("an update changes targets and makes nothing", async () => {
  const { ready, update, get, owned } = balancers();
  const here = service("here");
  await ready(here);
  const nodes = [nodeAt("a", "10.0.0.2"), nodeAt("b", "10.0.0.1")];
  assert.equal((await update(here, nodes)).disposition, READY);
  assert.equal((await update(service("none"), nodes)).disposition, ABSENT);
  assert.equal((await get(here, nodes)).disposition, READY);
  assert.deepEqual(await owned(), ["here"]);
});

test("the account is full with 16 load balancers, which may still be changed", async () => {
  const { ensure } = balancers();
  for (let n = 0; n < 16; n++) await ensure(service(`s-${String(n)}`));
  await assert.rejects(ensure(service("one-more")), { reason: "QUOTA_EXCEEDED" });
  await ensure(service("s-3"), [nodeAt("a", "10.0.0.2")]);
});

test("the file of switches decides how the cloud is", async () => {
  const switches = join(await mkdtemp(join(tmpdir(), "cloud-")), "cloud");
  const { get } = balancers(new Cloud([], switches));
  for (const [state, reason] of [["off", "CLOUD_UNAVAILABLE"], ["limited", "RATE_LIMITED"], ["locked", "CREDENTIALS_INVALID"]] as const) {
    await writeFile(switches, state);
    await assert.rejects(get(service("s")), { reason });
  }
  await writeFile(switches, "hangs");
  const answer = get(service("s"));
  const first = await Promise.race([answer, new Promise((resolve) => setTimeout(resolve, 100, "waits"))]);
  assert.equal(first, "waits");
  await writeFile(switches, "on");
  assert.equal((await answer).disposition, ABSENT);
});
