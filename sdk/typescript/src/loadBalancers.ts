/** LoadBalancersService: the interface of a cloud's load balancers, and the service that is made of it. */
import type { Call } from "./call.js";
import { type Core, notServed } from "./core.js";
import { cut, Failure, ProviderError } from "./errors.js";
import { eachItem } from "./each.js";
import type { Service } from "./gen/cloudprovider/v1/common.js";
import * as api from "./gen/cloudprovider/v1/load_balancers.js";
import type { NodeTargets } from "./gen/cloudprovider/v1/node_sets.js";
import type { LoadBalancersCapability } from "./gen/cloudprovider/v1/provider.js";
import { KeyLocks, Semaphore } from "./keys.js";
import { type List, sendList } from "./list.js";
import { complete } from "./messages.js";
import type { DeepPartial } from "./partial.js";
import type { NodeSets, Targets } from "./nodeSets.js";
import { resultOf } from "./results.js";

/** Parts of an answer may be left out, but not its disposition. */
export type Answer = DeepPartial<api.LoadBalancerAnswer> & { disposition: api.LoadBalancerDisposition };

/**
 * Makes and removes the load balancers of Services. The key is `Service.uid`: tag with it and with `call.clusterUid`, in the
 * cloud call that creates, for a reply may be lost and the process killed at any time. Each method carries the whole desired
 * state and may be repeated. One changing call for each Service runs at a time, also while a handler outlives its caller, and
 * of all Services no more than `maxInFlight`. Services of classes that
 * are not declared arrive only to be looked at and deleted.
 */
export interface LoadBalancers {
  /** Declared at handshake; the SDK sets `list` and `plan`, and `maxServicesPerUpdate` to 100 unless it is given. */
  readonly capability?: DeepPartial<LoadBalancersCapability>;
  /** Services of one update that are worked on at a time, 8 unless given. */
  readonly updateConcurrency?: number;
  /** Compares; without targets not those. READY, DIFFERS, IN_PROGRESS, NOT_MANAGED or ABSENT. */
  getLoadBalancer(service: Service, targets: Targets | undefined, call: Call): Promise<Answer> | Answer;
  /** Makes the load balancer what Service and targets ask for; no targets are legal. READY, IN_PROGRESS or NOT_MANAGED. */
  ensureLoadBalancer(service: Service, targets: Targets, call: Call): Promise<Answer> | Answer;
  /** Gives one load balancer new targets, and changes nothing else. READY, IN_PROGRESS, NOT_MANAGED or ABSENT. */
  updateLoadBalancerNodes(service: Service, targets: Targets, call: Call): Promise<Answer> | Answer;
  /** Removes every part. ABSENT, RETAINED, NOT_MANAGED or IN_PROGRESS. */
  deleteLoadBalancer(service: Service, call: Call): Promise<Answer> | Answer;
  /** Lists everything that this cluster owns. An exception has the caller discard the list. */
  listLoadBalancers?(call: Call): List<api.OwnedLoadBalancer>;
  /** The changes that an Ensure, or without targets a Delete, would make. Changes nothing. */
  planLoadBalancer?(service: Service, targets: Targets | undefined, call: Call):
  Promise<readonly DeepPartial<api.PlannedChange>[]> | readonly DeepPartial<api.PlannedChange>[];
}

const { READY, DIFFERS, IN_PROGRESS, NOT_MANAGED, ABSENT, RETAINED } = api.LoadBalancerDisposition;
/** The answers that each method may give. */
const DISPOSITIONS: Readonly<Record<string, readonly api.LoadBalancerDisposition[]>> = {
  GetLoadBalancer: [READY, DIFFERS, IN_PROGRESS, NOT_MANAGED, ABSENT],
  EnsureLoadBalancer: [READY, IN_PROGRESS, NOT_MANAGED],
  UpdateLoadBalancerNodes: [READY, IN_PROGRESS, NOT_MANAGED, ABSENT],
  DeleteLoadBalancer: [ABSENT, RETAINED, NOT_MANAGED, IN_PROGRESS],
};
/** How long a call waits for another of its Service: an update must not fall silent because of one. */
const KEY_PATIENCE_MS = 10_000;
const UPDATE_CONCURRENCY = 8;

/** The handlers of LoadBalancersService. */
export function loadBalancersService(
  core: Core, balancers: LoadBalancers, capability: LoadBalancersCapability, sets: NodeSets,
): api.LoadBalancersServiceServer {
  const locks = new KeyLocks(KEY_PATIENCE_MS);
  const services = new Semaphore(capability.maxInFlight);
  const optional = (targets: NodeTargets | undefined) => targets && sets.resolve(targets);
  const isServed = ({ loadBalancerClass }: Service) =>
    (loadBalancerClass === undefined ? !capability.withoutDefaultClass : capability.classes.includes(loadBalancerClass));
  /** Leaves Services of other classes alone. */
  const inClass = (service: Service, work: () => Promise<Answer> | Answer) => (isServed(service) ? work() : { disposition: NOT_MANAGED });
  /** One change of a Service at a time. */
  const change = async (service: Service, call: Call, work: () => Promise<Answer> | Answer) => {
    const release = await locks.lock(call, `Service ${service.uid}`);
    try {
      return await services.run(call, async () => answerOf(call, await work()));
    } finally {
      release();
    }
  };
  return {
    getLoadBalancer: core.unary("GetLoadBalancer", async (request: api.GetLoadBalancerRequest, call) => {
      const targets = optional(request.targets);
      return { answer: answerOf(call, await balancers.getLoadBalancer(serviceOf(request), targets, call)) };
    }),
    ensureLoadBalancer: core.unary("EnsureLoadBalancer", async (request: api.EnsureLoadBalancerRequest, call) => {
      const targets = sets.resolve(request.targets);
      const service = serviceOf(request);
      return { answer: await change(service, call, () => inClass(service, () => balancers.ensureLoadBalancer(service, targets, call))) };
    }),
    updateLoadBalancerNodes: core.stream("UpdateLoadBalancerNodes", async (
      request: api.UpdateLoadBalancerNodesRequest, call, send: (part: api.UpdateLoadBalancerNodesResponse) => Promise<void>,
    ) => {
      const targets = sets.resolve(request.targets);
      const concurrency = Math.min(balancers.updateConcurrency ?? UPDATE_CONCURRENCY, capability.maxInFlight || Infinity);
      await eachItem(call, request.items, concurrency, async (service) => {
        const work = () => inClass(service, () => balancers.updateLoadBalancerNodes(service, targets, call));
        return { found: await change(serviceOf({ service }), call, work) };
      }, async (service, result) => {
        const { key, outcome } = resultOf(call, service.uid, api.LoadBalancerAnswer, result, 0, false);
        // An update answers found or an error alone.
        if (outcome.$case === "found" || outcome.$case === "error") await send({ results: [{ key, outcome }] });
      });
    }),
    deleteLoadBalancer: core.unary("DeleteLoadBalancer", async (request: api.DeleteLoadBalancerRequest, call) => {
      const service = serviceOf(request);
      return { answer: await change(service, call, () => balancers.deleteLoadBalancer(service, call)) };
    }),
    listLoadBalancers: core.stream("ListLoadBalancers", async (
      _: api.ListLoadBalancersRequest, call, send: (page: api.ListLoadBalancersResponse) => Promise<void>,
    ) => {
      if (!balancers.listLoadBalancers) throw notServed("ListLoadBalancers");
      await sendList(call, api.OwnedLoadBalancer, balancers.listLoadBalancers(call), send);
    }),
    planLoadBalancer: core.unary("PlanLoadBalancer", async (request: api.PlanLoadBalancerRequest, call) => {
      if (!balancers.planLoadBalancer) throw notServed("PlanLoadBalancer");
      const { ENSURE, DELETE } = api.PlanOperation;
      if (request.operation !== ENSURE && request.operation !== DELETE) {
        throw new ProviderError("INVALID_REQUEST", "the request names no operation that this provider knows");
      }
      const targets = request.operation === ENSURE ? sets.resolve(request.targets) : undefined;
      const service = serviceOf(request);
      if (targets && !isServed(service)) return { changes: [] };
      const changes = await balancers.planLoadBalancer(service, targets, call);
      return complete(api.PlanLoadBalancerResponse, { changes }, "the plan").message;
    }),
  };
}

/** The Service of a request, with the UID by which its load balancer is found. */
function serviceOf({ service }: { service: Service | undefined }): Service {
  if (!service?.uid) throw new ProviderError("INVALID_REQUEST", "the request has no Service, or one without a UID");
  return service;
}

/** The answer of a handler within the limits of the contract; a wrong one is an error where its author sees it. */
function answerOf(call: Call, given: Answer): api.LoadBalancerAnswer {
  const { message: answer } = complete(api.LoadBalancerAnswer, given, "the answer");
  if (!DISPOSITIONS[call.rpc]?.includes(answer.disposition)) {
    const name = api.LoadBalancerDisposition[answer.disposition] as string | undefined;
    throw new Failure(`the provider answered ${call.rpc} with ${name ?? String(answer.disposition)}, which is no answer to it`);
  }
  const { retryAfter } = answer;
  const seconds = retryAfter && Math.min(Math.max(retryAfter.seconds + retryAfter.nanos / 1e9, 1), 300);
  return {
    ...answer, reason: cut(answer.reason, 128), message: cut(answer.message, 1024),
    retryAfter: seconds === undefined ? undefined : { seconds: Math.floor(seconds), nanos: Math.floor((seconds % 1) * 1e9) },
  };
}
