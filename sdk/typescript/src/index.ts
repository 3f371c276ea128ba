/**
 * Serves a cloud to Outrigger's controller over a Unix socket: the contract cloudprovider.v1. The package has the socket,
 * handshake, health, deadlines, error details, node sets, logs, the probe and the graceful end; its user answers about a cloud.
 */
export { Batcher } from "./batcher.js";
export type { Call, Cluster } from "./call.js";
export { type ErrorOptions, ProviderError, type Reason } from "./errors.js";
export { each, type Instances, type List, type Query } from "./instances.js";
export type { Answer, LoadBalancers } from "./loadBalancers.js";
export { log, type Logger } from "./logging.js";
export { type Build, main } from "./main.js";
export type { DeepPartial } from "./partial.js";
export { Targets } from "./nodeSets.js";
export { probe, type ProbeResult } from "./probe.js";
export type { Provider } from "./provider.js";
export type { Lookup, Result, Results } from "./results.js";
export type { CreatedRoute, DeletedRoute, Routes } from "./routes.js";
export { serve } from "./serve.js";
export type { Volumes } from "./volumes.js";
export * as v1 from "./gen/index.cloudprovider.v1.js";
