/** LoadBalancersService: a load balancer of the cloud for each Service, found by the UIDs of cluster and Service. */
import { isDeepStrictEqual } from "node:util";
import type { CallContext, Node, Service } from "../gen/cloudprovider/v1/common.js";
import * as api from "../gen/cloudprovider/v1/load_balancers.js";
import { type Calls, clusterUid, type Locks } from "./calls.js";
import type { Balancer, Cloud, Spec } from "./cloud.js";
import { errorOfItem, ProviderError } from "./errors.js";
import type { NodeSets } from "./nodeSets.js";

const { READY, DIFFERS, IN_PROGRESS, NOT_MANAGED, ABSENT } = api.LoadBalancerDisposition;
/** The prefix of the annotations that this provider reads. */
export const ANNOTATION_PREFIX = "memory.example/";
/** The largest number of Services in one update. */
export const MAX_SERVICES = 100;

/** The handlers of LoadBalancersService. */
export function loadBalancers(cloud: Cloud, calls: Calls, locks: Locks, sets: NodeSets) {
  return {
    getLoadBalancer: calls.unary(async (request: api.GetLoadBalancerRequest, signal) => {
      const { cluster, service } = keyOf(request);
      const targets = request.targets && addressesOf(sets.resolve(request.targets));
      const current = await cloud.find(signal, cluster, service.uid);
      if (service.loadBalancerClass) return response(NOT_MANAGED);
      if (!current) return response(ABSENT);
      const message = differences(current.spec, specOf(service, targets ?? current.spec.targets)).join(", ");
      return { answer: answer(current, message ? DIFFERS : READY, message) };
    }),
    ensureLoadBalancer: calls.unary(async (request: api.EnsureLoadBalancerRequest, signal) => {
      const { cluster, service } = keyOf(request);
      const targets = addressesOf(sets.resolve(request.targets));
      if (service.loadBalancerClass) return response(NOT_MANAGED);
      const spec = specOf(service, targets);
      return locks.hold(service.uid, signal, async () => {
        const current = await cloud.find(signal, cluster, service.uid);
        if (current && differences(current.spec, spec).length === 0) return { answer: answer(current, READY) };
        // A load balancer that was lost with an earlier process gets the addresses that its Service has.
        const addresses = service.status?.ingress.map(({ ip }) => ip) ?? [];
        const desired = { cluster, service: refOf(service), addresses, ...current, spec };
        return { answer: answer(await cloud.put(signal, desired, request.heldAddresses?.ips), READY) };
      });
    }),
    updateLoadBalancerNodes: calls.stream(async (request: api.UpdateLoadBalancerNodesRequest, send, signal) => {
      const cluster = clusterUid(request.context);
      const targets = addressesOf(sets.resolve(request.targets));
      await Promise.all(request.items.map(async (service) => {
        const outcome = await locks.hold(service.uid, signal, async () => {
          if (service.loadBalancerClass) return response(NOT_MANAGED);
          const current = await cloud.find(signal, cluster, service.uid);
          if (!current) return response(ABSENT);
          return { answer: answer(await cloud.put(signal, { ...current, spec: { ...current.spec, targets } }), READY) };
        }).then(({ answer: value }) => ({ $case: "found" as const, value }),
          (error: unknown) => ({ $case: "error" as const, value: errorOfItem(error) }));
        await send({ results: [{ key: service.uid, outcome }] });
      }));
    }),
    deleteLoadBalancer: calls.unary(async (request: api.DeleteLoadBalancerRequest, signal) => {
      const { cluster, service } = keyOf(request);
      return locks.hold(service.uid, signal, async () => {
        const current = await cloud.find(signal, cluster, service.uid);
        if (current) await cloud.delete(signal, current);
        return response(service.loadBalancerClass && !current ? NOT_MANAGED : ABSENT);
      });
    }),
    listLoadBalancers: calls.stream(async ({ context }: api.ListLoadBalancersRequest, send, signal) => {
      const cluster = clusterUid(context);
      const all = await cloud.read(signal, ({ balancers }) => [...balancers.values()]);
      for (const one of all.filter((one) => one.cluster === cluster)) {
        await send({ items: [{ ...answer(one, READY), service: one.service }], complete: false });
      }
      await send({ items: [], complete: true });
    }),
  } satisfies Partial<api.LoadBalancersServiceServer>;
}

function keyOf({ context, service }: { context: CallContext | undefined; service: Service | undefined }) {
  if (!service?.uid) throw new ProviderError("INVALID_REQUEST", "the request names no Service");
  return { cluster: clusterUid(context), service };
}

const refOf = ({ namespace, name, uid }: Service) => ({ namespace, name, uid });
/** The addresses that this cloud sends to. */
function addressesOf(nodes: Node[]): string[] {
  const addresses = nodes.flatMap((node) => node.addresses).filter(({ type }) => type === "InternalIP");
  return addresses.map(({ address }) => address).sort();
}

/** Throws for what this cloud cannot serve: to leave it out silently would be worse. */
function specOf(service: Service, targets: string[]): Spec {
  const { sessionAffinity, sessionAffinityTimeout, loadBalancerSourceRanges: sources, healthCheckNodePort } = service;
  if (service.loadBalancerIp) throw new ProviderError("UNSUPPORTED_FEATURE", "spec.loadBalancerIP cannot be chosen");
  const ports = service.ports.map(({ protocol, port, nodePort }) => {
    const text = `${protocol}/${String(port)}`;
    if (!["TCP", "UDP"].includes(protocol)) throw new ProviderError("UNSUPPORTED_PROTOCOL", `${text} cannot be served`);
    if (nodePort === 0) throw new ProviderError("UNSUPPORTED_FEATURE", `${text} needs a node port in this cloud`);
    return { protocol, port, nodePort };
  });
  const idle = service.annotations[`${ANNOTATION_PREFIX}idle-seconds`] ?? "60";
  if (!/^[1-9]\d{0,3}$/.test(idle)) {
    throw new ProviderError("INVALID_ANNOTATION", `${ANNOTATION_PREFIX}idle-seconds is ${idle}; write 1 to 9999`);
  }
  const affinity = sessionAffinity === "ClientIP" ? sessionAffinityTimeout?.seconds ?? 10_800 : 0;
  const families = service.ipFamilies.length > 0 ? service.ipFamilies : ["IPv4"];
  return { families, targets, ports, idle, affinity, sources, healthCheckNodePort };
}

function differences(current: Spec, spec: Spec): string[] {
  return Object.keys(spec).filter((key) => !isDeepStrictEqual(current[key], spec[key]));
}

function response(disposition: api.LoadBalancerDisposition) {
  return { answer: api.LoadBalancerAnswer.fromPartial({ disposition }) };
}

function answer({ id, service, addresses, activeAt }: Balancer, active: api.LoadBalancerDisposition, message = "") {
  const identity = { id, name: `${service.namespace}/${service.name}` };
  if (Date.now() < activeAt) {
    return api.LoadBalancerAnswer.fromPartial({ disposition: IN_PROGRESS, identity, retryAfter: { seconds: 1 } });
  }
  const ingress = addresses.map((ip) => ({ ip }));
  return api.LoadBalancerAnswer.fromPartial({ disposition: active, identity, status: { ingress }, message });
}
