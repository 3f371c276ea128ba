/** A cloud, ready to be served, and what of it is declared at handshake. */
import type { Instances } from "./instances.js";
import type { LoadBalancers } from "./loadBalancers.js";
import { Capabilities, type EffectsCapability, type GetStatusResponse, type RateLimit } from "./gen/cloudprovider/v1/provider.js";
import { complete } from "./messages.js";
import type { DeepPartial } from "./partial.js";
import type { Routes } from "./routes.js";
import type { Volumes } from "./volumes.js";

/** A capability is offered exactly when its part is there. Nothing of it may change once it is served. */
export interface Provider {
  /** 1 to 63 of a-z, 0-9 and '-'. The controller refuses a provider that changes it. */
  name: string;
  /** For logs and metrics. */
  version?: string;
  /** The cloud cannot tell two clusters apart. The controller then refuses to run unless --allow-untagged-cloud is set. */
  withoutClusterId?: boolean;
  /** Prefixes of the annotations that are read: no others are sent, and a change of no others leads to a call. Empty: all. */
  serviceAnnotationPrefixes?: readonly string[];
  /** Likewise of Nodes. Empty: none. "*": all. */
  nodeAnnotationPrefixes?: readonly string[];
  /** Limits of the cloud, below which the controller stays; at most one for each class. */
  rateLimits?: readonly DeepPartial<RateLimit>[];
  /** Effects that answers may have in Kubernetes; without it they are ignored. */
  effects?: DeepPartial<EffectsCapability>;
  /**
   * How the provider and its cloud are, by what is known without a call to the cloud: it is asked every 10 s and by each
   * probe. Without it: DEGRADED after a call that ended with RATE_LIMITED, CREDENTIALS_INVALID or CLOUD_UNAVAILABLE, else READY.
   */
  status?(): DeepPartial<GetStatusResponse>;
  /** The largest message that is accepted: 4 MiB unless given, at least 1 MiB. */
  maxMessageBytes?: number;
  instances?: Instances;
  /** Node sets are served with them. */
  loadBalancers?: LoadBalancers;
  routes?: Routes;
  volumes?: Volumes;
}

/** A declaration that the controller would refuse at handshake. */
export class DeclarationError extends Error {
  override readonly name = "DeclarationError";
  constructor(message: string) {
    super(`this provider cannot be served: ${message}`);
  }
}

/** Each part with the methods that it must have. */
const METHODS = {
  instances: ["batchGetInstances"],
  loadBalancers: ["getLoadBalancer", "ensureLoadBalancer", "updateLoadBalancerNodes", "deleteLoadBalancer"],
  routes: ["listRoutes", "batchCreateRoutes", "batchDeleteRoutes"],
  volumes: ["batchGetVolumes"],
} as const;
const BATCH = 100;

/** The capabilities that are offered, with the defaults of the contract filled in. Throws a {@link DeclarationError}. */
export function capabilitiesOf(provider: Provider): Capabilities {
  checkMethods(provider);
  const { instances, loadBalancers, routes, volumes, effects } = provider;
  const capabilities = complete(Capabilities, {
    effects,
    instances: instances && { ...instances.capability, maxBatchSize: instances.capability?.maxBatchSize ?? BATCH, list: !!instances.listInstances },
    loadBalancers: loadBalancers && {
      ...loadBalancers.capability, maxServicesPerUpdate: loadBalancers.capability?.maxServicesPerUpdate ?? BATCH,
      list: !!loadBalancers.listLoadBalancers, plan: !!loadBalancers.planLoadBalancer,
    },
    nodeSets: loadBalancers && { deltas: true },
    routes: routes && { ...routes.capability, maxBatchSize: routes.capability?.maxBatchSize ?? BATCH },
    volumes: volumes && { ...volumes.capability, maxBatchSize: volumes.capability?.maxBatchSize ?? BATCH },
  }, "a capability").message;
  checkLimits(provider, capabilities);
  return capabilities;
}

function checkMethods(provider: Provider): void {
  const parts = Object.entries(METHODS) as [keyof typeof METHODS, readonly string[]][];
  for (const [part, methods] of parts) {
    const served = provider[part] as Record<string, unknown> | undefined;
    const missing = served && methods.find((method) => typeof served[method] !== "function");
    if (missing !== undefined) throw new DeclarationError(`${part}.${missing} is no function`);
  }
}

function checkLimits(provider: Provider, { instances, loadBalancers, routes, volumes }: Capabilities): void {
  if (!/^[a-z0-9-]{1,63}$/.test(provider.name)) {
    throw new DeclarationError(`the name ${JSON.stringify(provider.name)} is not legal: use 1 to 63 of a-z, 0-9 and '-'`);
  }
  for (const [field, value, most] of [
    ["instances.capability.maxBatchSize", instances?.maxBatchSize, 500],
    ["loadBalancers.capability.maxServicesPerUpdate", loadBalancers?.maxServicesPerUpdate, 200],
    ["loadBalancers.capability.maxInFlight", loadBalancers?.maxInFlight, 256],
    ["routes.capability.maxBatchSize", routes?.maxBatchSize, 500],
    ["routes.capability.maxInFlight", routes?.maxInFlight, 64],
    ["volumes.capability.maxBatchSize", volumes?.maxBatchSize, 500],
    ["volumes.capability.maxInFlight", volumes?.maxInFlight, 64],
  ] as const) {
    if (value !== undefined && value > most) throw new DeclarationError(`${field} is ${String(value)}: use at most ${String(most)}`);
  }
  if (loadBalancers?.withoutDefaultClass && loadBalancers.classes.length === 0) {
    throw new DeclarationError("loadBalancers.capability.withoutDefaultClass without classes serves no Service at all");
  }
  const revision = Buffer.byteLength(loadBalancers?.configurationRevision ?? "");
  if (revision > 64) throw new DeclarationError(`loadBalancers.capability.configurationRevision has ${String(revision)} bytes: use at most 64`);
  for (const [field, entries] of [
    ["instances.capability.providerIdPrefixes", instances?.providerIdPrefixes],
    ["instances.capability.managedLabelKeys", instances?.managedLabelKeys],
    ["loadBalancers.capability.classes", loadBalancers?.classes],
    ["volumes.capability.csiDrivers", volumes?.csiDrivers],
    ["serviceAnnotationPrefixes", provider.serviceAnnotationPrefixes],
    ["nodeAnnotationPrefixes", provider.nodeAnnotationPrefixes],
  ] as const) {
    if ((entries?.length ?? 0) > 64) throw new DeclarationError(`${field} has ${String(entries?.length)} entries: use at most 64`);
    const wrong = entries?.find((entry) => !/^[!-~]{1,253}$/.test(entry));
    if (wrong !== undefined) throw new DeclarationError(`${field} has ${JSON.stringify(wrong)}: use 1 to 253 visible ASCII characters`);
  }
}
