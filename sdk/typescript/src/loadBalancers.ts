/** LoadBalancersService: the interface of a cloud's load balancers, and the service that is made of it. */
import type { Call } from "./call.js";
import type { Core } from "./core.js";
import { ProviderError } from "./errors.js";
import type { Service } from "./gen/cloudprovider/v1/common.js";
import * as api from "./gen/cloudprovider/v1/load_balancers.js";
import type { LoadBalancersCapability } from "./gen/cloudprovider/v1/provider.js";
import type { List } from "./instances.js";
import { Keys } from "./keys.js";
import type { NodeSets, Targets } from "./nodeSets.js";
import { type DeepPartial, whole } from "./partial.js";

/** Parts of an answer may be left out, but not its disposition. */
export type Answer = DeepPartial<api.LoadBalancerAnswer> & { disposition: api.LoadBalancerDisposition };

/**
 * Makes and removes the load balancers of Services. The key is `Service.uid`: tag with it and with `call.clusterUid`, in the
 * cloud call that creates, for a reply may be lost and the process killed at any time. Each method carries the whole desired
 * state and may be repeated. One changing call for each Service runs at a time, also while a handler outlives its caller, and
 * of all Services no more than `maxInFlight`. Services of classes that are not declared arrive only to be looked at and deleted.
 */
export interface LoadBalancers {
  /** Declared at handshake; the SDK sets `list` and `plan`. */
  readonly capability?: DeepPartial<LoadBalancersCapability>;
  /** Compares; without targets not those. READY, DIFFERS, IN_PROGRESS, NOT_MANAGED or ABSENT. */
  getLoadBalancer(service: Service, targets: Targets | undefined, call: Call): Promise<Answer> | Answer;
  /** Makes the load balancer what Service and targets ask for; no targets are legal. READY, IN_PROGRESS or NOT_MANAGED. */
  ensureLoadBalancer(service: Service, targets: Targets, call: Call): Promise<Answer> | Answer;
  /** Gives one load balancer new targets, and changes nothing else. READY, IN_PROGRESS, NOT_MANAGED or ABSENT. */
  updateLoadBalancerNodes(service: Service, targets: Targets, call: Call): Promise<Answer> | Answer;
  /** Removes every part. ABSENT, RETAINED, NOT_MANAGED or IN_PROGRESS. */
  deleteLoadBalancer(service: Service, call: Call): Promise<Answer> | Answer;
  /** Lists everything that this cluster owns. */
  listLoadBalancers?(call: Call): List<api.OwnedLoadBalancer>;
  /** The changes that an Ensure, or without targets a Delete, would make. Changes nothing. */
  planLoadBalancer?(service: Service, targets: Targets | undefined, call: Call):
  Promise<readonly DeepPartial<api.PlannedChange>[]> | readonly DeepPartial<api.PlannedChange>[];
}

/** A request about one load balancer. */
interface Request { service: Service | undefined }

/** The handlers of LoadBalancersService. */
export function loadBalancersService(core: Core, balancers: LoadBalancers, sets: NodeSets) {
  const { maxInFlight = 0, withoutDefaultClass = false, classes = [] } = balancers.capability ?? {};
  const keys = new Keys(maxInFlight);
  const isServed = ({ loadBalancerClass }: Service) =>
    (loadBalancerClass === undefined ? !withoutDefaultClass : classes.includes(loadBalancerClass));
  /** Services of other classes are left alone. */
  const inClass = (service: Service, work: () => Promise<Answer> | Answer) =>
    (isServed(service) ? work() : { disposition: api.LoadBalancerDisposition.NOT_MANAGED });
  const answer = (given: Answer) => ({ answer: whole(api.LoadBalancerAnswer, given) });
  /** One change of a Service at a time. */
  const change = async (request: Request, call: Call, work: (service: Service) => Promise<Answer> | Answer) => {
    const service = serviceOf(request);
    return answer(await keys.run(call, `Service ${service.uid}`, () => work(service)));
  };
  return {
    getLoadBalancer: core.unary("GetLoadBalancer", async (request: api.GetLoadBalancerRequest, call) => {
      const targets = request.targets && sets.resolve(request.targets);
      return answer(await balancers.getLoadBalancer(serviceOf(request), targets, call));
    }),
    ensureLoadBalancer: core.change("EnsureLoadBalancer", (request: api.EnsureLoadBalancerRequest, call) => {
      const targets = sets.resolve(request.targets);
      return change(request, call, (service) => inClass(service, () => balancers.ensureLoadBalancer(service, targets, call)));
    }),
    updateLoadBalancerNodes: core.change("UpdateLoadBalancerNodes", (request: api.UpdateLoadBalancerNodesRequest, call) => {
      const targets = sets.resolve(request.targets);
      return change(request, call, (service) => inClass(service, () => balancers.updateLoadBalancerNodes(service, targets, call)));
    }),
    deleteLoadBalancer: core.change("DeleteLoadBalancer", (request: api.DeleteLoadBalancerRequest, call) =>
      change(request, call, (service) => balancers.deleteLoadBalancer(service, call))),
    ...balancers.listLoadBalancers && {
      listLoadBalancers: core.list("ListLoadBalancers", api.OwnedLoadBalancer, (_: api.ListLoadBalancersRequest, call) =>
        balancers.listLoadBalancers?.(call) ?? []),
    },
    ...balancers.planLoadBalancer && {
      planLoadBalancer: core.unary("PlanLoadBalancer", async (request: api.PlanLoadBalancerRequest, call) => {
        const { ENSURE, DELETE } = api.PlanOperation;
        if (request.operation !== ENSURE && request.operation !== DELETE) {
          throw new ProviderError("INVALID_REQUEST", "the request names no operation that this provider knows");
        }
        const targets = request.operation === ENSURE ? sets.resolve(request.targets) : undefined;
        const service = serviceOf(request);
        if (targets && !isServed(service)) return { changes: [] };
        return whole(api.PlanLoadBalancerResponse, { changes: await balancers.planLoadBalancer?.(service, targets, call) });
      }),
    },
  };
}

/** The Service of a request, with the UID by which its load balancer is found. */
function serviceOf({ service }: Request): Service {
  if (!service?.uid) throw new ProviderError("INVALID_REQUEST", "the request has no Service, or one without a UID");
  return service;
}
