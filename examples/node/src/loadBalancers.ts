/** Load balancers: one of the cloud for each Service, found by the UIDs of cluster and Service. */
import { randomUUID } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { type Answer, type LoadBalancers, ProviderError, type Targets, v1 } from "@outrigger/provider";
import type { Balancer, Cloud, Spec } from "./cloud.js";

const { READY, DIFFERS, IN_PROGRESS, ABSENT } = v1.LoadBalancerDisposition;
/** The prefix of the annotations that this provider reads. */
export const ANNOTATION_PREFIX = "memory.example/";

/** The load balancers of the cloud. */
export function loadBalancers(cloud: Cloud): LoadBalancers {
  return {
    // The cloud forgets everything with the process: another one has all ensured.
    capability: { configurationRevision: randomUUID() },
    async getLoadBalancer(service, targets, call) {
      const balancer = await cloud.find(call.signal, call.clusterUid, service.uid);
      if (!balancer) return { disposition: ABSENT };
      const message = differences(balancer.spec, specOf(service, targets ? addressesOf(targets) : balancer.spec.targets)).join(", ");
      return answer(balancer, message ? DIFFERS : READY, message);
    },
    async ensureLoadBalancer(service, targets, call) {
      const spec = specOf(service, addressesOf(targets));
      const balancer = await cloud.find(call.signal, call.clusterUid, service.uid);
      if (balancer && differences(balancer.spec, spec).length === 0) return answer(balancer);
      // A load balancer that was lost with an earlier process gets the addresses that its Service has.
      const addresses = service.status?.ingress.map(({ ip }) => ip) ?? [];
      const { namespace, name, uid } = service;
      const desired = { cluster: call.clusterUid, service: { namespace, name, uid }, addresses, ...balancer, spec };
      call.check();
      return answer(await cloud.put(call.signal, desired));
    },
    async updateLoadBalancerNodes(service, targets, call) {
      const balancer = await cloud.find(call.signal, call.clusterUid, service.uid);
      if (!balancer) return { disposition: ABSENT };
      call.check();
      return answer(await cloud.put(call.signal, { ...balancer, spec: { ...balancer.spec, targets: addressesOf(targets) } }));
    },
    async deleteLoadBalancer(service, call) {
      const balancer = await cloud.find(call.signal, call.clusterUid, service.uid);
      call.check();
      if (balancer) await cloud.delete(call.signal, balancer);
      return { disposition: ABSENT };
    },
    async* listLoadBalancers(call) {
      for (const balancer of await cloud.listBalancers(call.signal, call.clusterUid)) {
        const { identity, status } = answer(balancer);
        yield { identity, status, service: balancer.service };
      }
    },
  };
}

/** The addresses that this cloud sends to. */
function addressesOf({ nodes }: Targets): string[] {
  return nodes.flatMap((node) => node.addresses).filter(({ type }) => type === "InternalIP").map(({ address }) => address).sort();
}

/** Throws for what this cloud cannot serve: to leave it out silently would be worse. */
function specOf(service: v1.Service, targets: string[]): Spec {
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

function answer({ id, service, addresses, activeAt }: Balancer, disposition = READY, message = ""): Answer {
  const identity = { id, name: `${service.namespace}/${service.name}` };
  if (Date.now() < activeAt) return { disposition: IN_PROGRESS, identity, retryAfter: { seconds: 1 } };
  return { disposition, identity, status: { ingress: addresses.map((ip) => ({ ip })) }, message };
}
