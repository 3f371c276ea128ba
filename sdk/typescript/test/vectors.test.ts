/** The vectors that the SDKs of all languages read. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { type TestContext, test } from "node:test";
import { ErrorInfo, RetryInfo } from "../src/gen/google/rpc/error_details.js";
import { Status } from "../src/gen/google/rpc/status.js";
import { type Call, type Cluster, type Instances, ProviderError, type Reason, v1 } from "../src/index.js";
import { ask, node, range, reasonOf, served, service, statusOf } from "./harness.js";

interface Case<S> { case: string; steps: S[] }

/** The cases of a file. */
function cases<T>(name: string): T[] {
  return JSON.parse(readFileSync(new URL(`../../../vectors/${name}.json`, import.meta.url), "utf8")) as T[];
}

/** An answer, or the reason of its refusal. */
async function answerOrReason<T>(call: Promise<T>): Promise<T | { reason: string | undefined }> {
  return call.catch(async () => ({ reason: reasonOf(await statusOf(call)).split(":")[0] }));
}

/** ts-proto's form of a message in proto3 JSON, whose `oneof` is a field of the message. */
const part = (json: object) => {
  const [[name, value] = ["", {}]] = Object.entries(json) as [string, object][];
  return { $case: name, value };
};

type Shared = Awaited<ReturnType<typeof served>>;

const targetsOf = (json: object | undefined) => {
  if (!json) return undefined;
  return v1.NodeTargets.fromPartial(Object.keys(json).length > 0 ? { targets: part(json) as v1.NodeTargets["targets"] } : {});
};

interface NodeSetStep { upload?: object[]; revision?: string; targets?: object; nodes?: object[]; reason?: string }

/** A provider of load balancers that remembers the nodes of the last call. */
async function withTargets(t: TestContext) {
  let last: readonly v1.Node[] = [];
  const answer = { disposition: v1.LoadBalancerDisposition.READY };
  const loadBalancers = {
    getLoadBalancer: () => answer, updateLoadBalancerNodes: () => answer,
    deleteLoadBalancer: () => ({ disposition: v1.LoadBalancerDisposition.ABSENT }),
    ensureLoadBalancer: (_: v1.Service, { nodes }: { nodes: readonly v1.Node[] }) => {
      last = nodes;
      return answer;
    },
  };
  return { ...await served(t, { loadBalancers }), nodes: () => last };
}

for (const { case: name, steps } of cases<Case<NodeSetStep>>("node_sets")) {
  test(`node sets: ${name}`, async (t) => {
    const all = await withTargets(t);
    const context = { requestId: "r", clusterName: "test", clusterUid: "uid-of-cluster" };
    for (const { upload, revision, targets, nodes, reason } of steps) {
      if (upload) {
        const call = new Promise((resolve, reject) => {
          const stream = all.nodeSets.syncNodeSet((error, answer) => { if (error) reject(error); else resolve(answer); });
          for (const [index, json] of upload.entries()) stream.write(v1.SyncNodeSetRequest.fromPartial(index === 0 ? { ...json, context } : json));
          stream.end();
        });
        assert.deepEqual(await answerOrReason(call), reason === undefined ? { revision } : { reason });
        continue;
      }
      const request = { context, service: service("s"), targets: targetsOf(targets), identity: undefined };
      const answer = await answerOrReason(ask(all.loadBalancers.ensureLoadBalancer.bind(all.loadBalancers), request));
      if (reason !== undefined) {
        assert.deepEqual(answer, { reason });
        continue;
      }
      assert.ok("answer" in answer);
      const expected = (nodes ?? []).map((one) => v1.Node.fromPartial(one)).sort((a, b) => (a.name < b.name ? -1 : 1));
      assert.deepEqual(all.nodes(), expected);
    }
  });
}

interface ErrorRow { case: string; reason: Reason; message: string; retryAfter?: number; effects?: Partial<v1.KubernetesEffects>; status: string }

/** A status with its details parsed. */
function parsed(bytes: Uint8Array) {
  const { code, message, details } = Status.decode(bytes);
  const types: Record<string, { decode(value: Uint8Array): object }> = {
    "google.rpc.ErrorInfo": ErrorInfo, "google.rpc.RetryInfo": RetryInfo, "cloudprovider.v1.KubernetesEffects": v1.KubernetesEffects,
  };
  const entries = details.map(({ typeUrl, value }) => {
    const type = typeUrl.slice(typeUrl.lastIndexOf("/") + 1);
    return [type, types[type]?.decode(value)] as const;
  });
  return { code, message, details: new Map(entries) };
}

test("errors: each row", async (t) => {
  let error: ProviderError;
  const instances: Instances = { batchGetInstances: () => { throw error; } };
  const all = await served(t, { instances });
  for (const { case: name, reason, message, retryAfter, effects, status } of cases<ErrorRow>("errors")) {
    error = new ProviderError(reason, message, { ...(retryAfter !== undefined && { retryAfter }), ...(effects && { effects }) });
    const request = { context: { requestId: "r", clusterName: "test", clusterUid: "" }, items: [node("a")], maxStaleness: undefined, view: 1 };
    const sent = await statusOf(ask(all.instances.batchGetInstances.bind(all.instances), request));
    assert.deepEqual(parsed(Status.encode(sent).finish()), parsed(Buffer.from(status, "base64")), `${name}: ${reason}`);
  }
});

interface IdentityStep {
  handshake?: Partial<v1.HandshakeRequest>; minor?: number; call?: Partial<v1.CallContext> | null; drain?: boolean; reason?: string;
  cluster?: Partial<Cluster>;
}

async function lookup(all: Shared, context: Partial<v1.CallContext> | null) {
  const request = { context: context ? v1.CallContext.fromPartial(context) : undefined, items: [node("a")], maxStaleness: undefined, view: 1 };
  return ask(all.instances.batchGetInstances.bind(all.instances), request);
}

for (const file of ["handshake", "context"]) {
  for (const { case: name, steps } of cases<Case<IdentityStep>>(file)) {
    test(`${file}: ${name}`, async (t) => {
      let last: Cluster | undefined;
      let release: () => void = () => undefined;
      const released = new Promise<void>((resolve) => { release = resolve; });
      let begun: () => void = () => undefined;
      const running = new Promise<void>((resolve) => { begun = resolve; });
      let waits = false;
      const instances: Instances = {
        batchGetInstances: async (nodes, call: Call) => {
          last = call.cluster;
          begun();
          if (waits) await released;
          return nodes.map((one) => [one.name, { absent: "NOT_VISIBLE_YET" as const }]);
        },
      };
      const all = await served(t, { instances }, true);
      const pending: Promise<unknown>[] = [];
      for (const { handshake, minor, call, drain, reason, cluster } of steps) {
        if (handshake) {
          const request = { ...v1.HandshakeRequest.fromPartial(handshake), controllerName: range.controllerName };
          const answer = await answerOrReason(ask(all.provider.handshake.bind(all.provider), request));
          if (reason === undefined) assert.equal("minor" in answer && answer.minor, minor);
          else assert.deepEqual(answer, { reason });
        } else if (drain) {
          waits = true;
          pending.push(lookup(all, { clusterName: "prod" }));
          await running;
          all.stop.abort();
        } else if (call !== undefined) {
          const answer = await answerOrReason(lookup(all, call));
          if (reason === undefined) assert.deepEqual(last, { name: "", uid: "", podCidrs: [], serviceCidrs: [], ...cluster });
          else assert.deepEqual(answer, { reason });
        }
      }
      release();
      await Promise.all(pending);
    });
  }
}
