/** Tests of the statuses and details of errors. */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { Server, ServerCredentials } from "@grpc/grpc-js";
import { LoadBalancersServiceService, type UpdateLoadBalancerNodesResponse } from "../gen/cloudprovider/v1/load_balancers.js";
import { RetryInfo } from "../gen/google/rpc/error_details.js";
import { Calls, Locks } from "../src/calls.js";
import { Cloud } from "../src/cloud.js";
import { ProviderError } from "../src/errors.js";
import { loadBalancers } from "../src/loadBalancers.js";
import { NodeSets } from "../src/nodeSets.js";
import { clients, close, context, reasonOf, refusal, service, temporarySocket } from "./harness.js";

/** An update of two Services, in a cloud that fails for the one named `bad`. */
async function updateWith(failure: ProviderError, scope: TestContext): Promise<string[]> {
  class Failing extends Cloud {
    override find(signal: AbortSignal, cluster: string, uid: string) {
      return uid === "uid-bad" ? Promise.reject(failure) : super.find(signal, cluster, uid);
    }
  }
  const server = new Server();
  server.addService(LoadBalancersServiceService, loadBalancers(new Failing([]), new Calls(), new Locks(), new NodeSets()));
  const path = await temporarySocket();
  await new Promise<void>((resolve, reject) => {
    server.bindAsync(`unix:${path}`, ServerCredentials.createInsecure(), (error) => { if (error) reject(error); else resolve(); });
  });
  const all = clients(path);
  scope.after(() => {
    close(all);
    server.forceShutdown();
  });
  const targets = { targets: { $case: "inline" as const, value: { nodes: [] } } };
  const request = { context, items: [service("bad"), service("good")], targets };
  const results: string[] = [];
  const stream = all.loadBalancers.updateLoadBalancerNodes(request, { deadline: Date.now() + 10_000 });
  for await (const part of stream as AsyncIterable<UpdateLoadBalancerNodesResponse>) {
    for (const { key, outcome } of part.results) {
      const text = outcome?.$case === "error" ? reasonOf(outcome.value) : String(outcome?.$case);
      results.push(`${key}: ${text}`);
    }
  }
  return results.sort();
}

test("an update answers for the other Services where the cloud fails for one", async (scope) => {
  const results = await updateWith(new ProviderError("CLOUD_ERROR", "422"), scope);
  assert.deepEqual(results, ["uid-bad: 13 cloudprovider.v1 CLOUD_ERROR", "uid-good: found"]);
});

test("an error that concerns the whole cloud is that of the update", async (scope) => {
  for (const [reason, seconds] of [["RATE_LIMITED", 7], ["CLOUD_UNAVAILABLE", undefined], ["CREDENTIALS_INVALID", undefined]] as const) {
    const failure = new ProviderError(reason, "of all", seconds);
    const refused = updateWith(failure, scope);
    assert.match(await refusal(refused), new RegExp(` ${reason}$`));
  }
});

test("RATE_LIMITED has a delay in whole seconds, and one without a time", () => {
  const delay = (...given: [] | [number]) => {
    const [, detail] = new ProviderError("RATE_LIMITED", "429", ...given).status.details;
    return detail && RetryInfo.decode(detail.value).retryDelay?.seconds;
  };
  assert.deepEqual([delay(), delay(2.5), delay(30)], [1, 3, 30]);
  assert.equal(new ProviderError("CLOUD_ERROR", "422").status.details.length, 1);
});
