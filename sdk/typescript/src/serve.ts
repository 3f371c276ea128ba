/** Serves a provider on its socket until it has drained. */
import * as grpc from "@grpc/grpc-js";
import { HealthImplementation } from "grpc-health-check";
import { Core } from "./core.js";
import { InstancesServiceService } from "./gen/cloudprovider/v1/instances.js";
import { LoadBalancersServiceService } from "./gen/cloudprovider/v1/load_balancers.js";
import { NodeSetsServiceService } from "./gen/cloudprovider/v1/node_sets.js";
import { ProviderServiceService } from "./gen/cloudprovider/v1/provider.js";
import { RoutesServiceService } from "./gen/cloudprovider/v1/routes.js";
import { VolumesServiceService } from "./gen/cloudprovider/v1/volumes.js";
import { Identity } from "./identity.js";
import { instancesService } from "./instances.js";
import { loadBalancersService } from "./loadBalancers.js";
import { log } from "./logging.js";
import { NodeSets } from "./nodeSets.js";
import { capabilitiesOf, type Provider } from "./provider.js";
import { routesService } from "./routes.js";
import { listen, pathOf } from "./socket.js";
import { volumesService } from "./volumes.js";

// Together less than the 30 s that Kubernetes waits by default.
/** How long running calls have to end by themselves. */
const DRAIN_PATIENCE_MS = 20_000;
/** How long they have once their callers count as gone. */
const DRAIN_GRACE_MS = 5_000;
/** How long callers have to read the last answers. */
const HANG_UP_MS = 2_000;
const HEALTH_INTERVAL_MS = 1_000;

/**
 * Serves until the signal is aborted, and resolves once it has drained: new calls get SHUTTING_DOWN, running ones have 20 s
 * to end by themselves and 5 s more once their callers count as gone, then the socket is removed. It appears, with mode
 * 0660, once calls are answered. Rejects if the endpoint is wrong, or another process serves there.
 */
export async function serve(provider: Provider, endpoint: string, signal: AbortSignal): Promise<void> {
  const path = pathOf(endpoint);
  const maxMessageBytes = provider.maxMessageBytes ?? 4 << 20;
  const core = new Core();
  const identity = new Identity(core, provider, capabilitiesOf(provider), maxMessageBytes);
  const { server, names } = serverOf(core, identity, provider, maxMessageBytes);
  const health = new HealthImplementation();
  let last = "";
  const setHealth = () => {
    const state = identity.isServing() ? "SERVING" : "NOT_SERVING";
    // It tells each watcher, also what is not new.
    if (state !== last) for (const name of ["", ...names]) health.setStatus(name, state);
    last = state;
  };
  setHealth();
  health.addToServer(server);
  const timer = setInterval(setHealth, HEALTH_INTERVAL_MS).unref();
  const removeSocket = await listen(server, path);
  log.info("serving", { endpoint: `unix://${path}`, provider: provider.name, version: provider.version ?? "", boot_id: identity.bootId });
  await new Promise<void>((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener("abort", () => { resolve(); });
  });
  // Until no call runs any more, a caller that connects gets an answer.
  const drained = core.drain(DRAIN_PATIENCE_MS, DRAIN_GRACE_MS);
  setHealth();
  const running = await drained;
  if (running > 0) log.warn("calls still run and are dropped", { running });
  await removeSocket();
  await new Promise<void>((resolve) => {
    server.tryShutdown(() => { resolve(); });
    setTimeout(() => { server.forceShutdown(); resolve(); }, HANG_UP_MS).unref();
  });
  clearInterval(timer);
  log.info("stopped");
}

/** The services of what is offered, and ProviderService. */
function serverOf(core: Core, identity: Identity, provider: Provider, maxMessageBytes: number): { server: grpc.Server; names: string[] } {
  const server = new grpc.Server({ "grpc.max_receive_message_length": maxMessageBytes });
  const names: string[] = [];
  const add = (definition: grpc.ServiceDefinition, handlers: object) => {
    server.addService(definition, handlers as grpc.UntypedServiceImplementation);
    names.push(...new Set(Object.values(definition).map(({ path }) => path.split("/")[1] ?? "")));
  };
  add(ProviderServiceService, identity.service());
  if (provider.instances) add(InstancesServiceService, instancesService(core, provider.instances));
  if (provider.loadBalancers) {
    const sets = new NodeSets();
    add(NodeSetsServiceService, sets.service(core));
    add(LoadBalancersServiceService, loadBalancersService(core, provider.loadBalancers, sets));
  }
  if (provider.routes) add(RoutesServiceService, routesService(core, provider.routes));
  if (provider.volumes) add(VolumesServiceService, volumesService(core, provider.volumes));
  return { server, names };
}
