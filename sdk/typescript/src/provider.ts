/** A cloud, ready to be served, and what of it is declared at handshake. */
import { Capabilities, type EffectsCapability, type GetStatusResponse, type RateLimit } from "./gen/cloudprovider/v1/provider.js";
import type { Instances } from "./instances.js";
import type { LoadBalancers } from "./loadBalancers.js";
import { type DeepPartial, whole } from "./partial.js";
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
  /** The largest message that is accepted: 4 MiB unless given, at least 64 KiB. */
  maxMessageBytes?: number;
  instances?: Instances;
  /** Node sets are served with them. */
  loadBalancers?: LoadBalancers;
  routes?: Routes;
  volumes?: Volumes;
}

/** The capabilities that are offered: the controller refuses wrong ones at the handshake, and says why. */
export function capabilitiesOf({ instances, loadBalancers, routes, volumes, effects }: Provider): Capabilities {
  return whole(Capabilities, {
    effects,
    instances: instances && { ...instances.capability, list: !!instances.listInstances },
    loadBalancers: loadBalancers && {
      ...loadBalancers.capability, list: !!loadBalancers.listLoadBalancers, plan: !!loadBalancers.planLoadBalancer,
    },
    nodeSets: loadBalancers && {},
    routes: routes && { ...routes.capability },
    volumes: volumes && { ...volumes.capability },
  });
}
