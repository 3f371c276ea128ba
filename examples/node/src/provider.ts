/** The gRPC server with all services of this provider; ProviderService says which they are. */
import { randomUUID } from "node:crypto";
import { Server } from "@grpc/grpc-js";
import { HealthImplementation } from "grpc-health-check";
import { InstancesServiceService } from "../gen/cloudprovider/v1/instances.js";
import { LoadBalancersServiceService } from "../gen/cloudprovider/v1/load_balancers.js";
import { NodeSetsServiceService } from "../gen/cloudprovider/v1/node_sets.js";
import * as api from "../gen/cloudprovider/v1/provider.js";
import { Calls, Locks } from "./calls.js";
import type { Cloud } from "./cloud.js";
import { ProviderError } from "./errors.js";
import { instances, MAX_BATCH } from "./instances.js";
import { ANNOTATION_PREFIX, loadBalancers, MAX_SERVICES } from "./loadBalancers.js";
import { NodeSets } from "./nodeSets.js";

/** The minor revision of the contract. */
const MINOR = 1;
/** In both directions; grpc-js accepts as much by default. */
const MAX_MESSAGE_BYTES = 4 << 20;

/** Makes the server, which does not listen yet, and the function that ends it. */
export function provider(cloud: Cloud) {
  const bootId = randomUUID();
  const [calls, sets] = [new Calls(), new NodeSets()];
  const health = new HealthImplementation({ "": "SERVING" });
  const server = new Server({ "grpc.max_receive_message_length": MAX_MESSAGE_BYTES });
  server.addService(api.ProviderServiceService, {
    handshake: calls.unary(({ minMinor, maxMinor }: api.HandshakeRequest) => {
      if (minMinor > MINOR || maxMinor < 1) {
        throw new ProviderError("VERSION_UNSUPPORTED", `minors ${String([minMinor, maxMinor])}, not ${String([1, MINOR])}`);
      }
      return api.HandshakeResponse.fromPartial({
        minor: Math.min(MINOR, maxMinor),
        providerName: "memory",
        providerVersion: "0.1.0",
        bootId,
        maxReceiveMessageBytes: MAX_MESSAGE_BYTES,
        serviceAnnotationPrefixes: [ANNOTATION_PREFIX],
        capabilities: {
          instances: { maxBatchSize: MAX_BATCH, lookupPreference: api.LookupPreference.BATCH },
          // Lost with this process, as everything in this cloud.
          loadBalancers: { list: true, maxServicesPerUpdate: MAX_SERVICES, volatile: true },
          nodeSets: {},
        },
      });
    }),
    getStatus: calls.unary(() => api.GetStatusResponse.fromPartial({ readiness: api.Readiness.READY, bootId })),
  } satisfies api.ProviderServiceServer);
  server.addService(InstancesServiceService, instances(cloud, calls));
  server.addService(LoadBalancersServiceService, loadBalancers(cloud, calls, new Locks(), sets));
  server.addService(NodeSetsServiceService, { syncNodeSet: calls.upload(sets.sync) });
  health.addToServer(server);
  /** Lets the calls that run end, and refuses new ones. */
  const end = () => new Promise<void>((resolve) => {
    calls.ending = true;
    health.setStatus("", "NOT_SERVING");
    server.tryShutdown(() => { resolve(); });
    setTimeout(() => { server.forceShutdown(); }, 20_000).unref();
  });
  return { server, end };
}
