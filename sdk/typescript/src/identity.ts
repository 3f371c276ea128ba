/** ProviderService: the handshake, and the status by which the connection lives. */
import { randomUUID } from "node:crypto";
import type * as grpc from "@grpc/grpc-js";
import type { Core } from "./core.js";
import { Failure, grpcError, isMeant, ProviderError } from "./errors.js";
import * as api from "./gen/cloudprovider/v1/provider.js";
import { log } from "./logging.js";
import { type DeepPartial, whole } from "./partial.js";
import type { Provider } from "./provider.js";

/** The minor revision of the contract that this package speaks. */
const MINOR = 1;

/** Which provider answers, which minor it speaks, and how it is. */
export class Identity {
  /** Another one in each process. */
  readonly bootId = randomUUID();

  constructor(
    private readonly core: Core, private readonly provider: Provider, private readonly capabilities: api.Capabilities,
    private readonly maxMessageBytes: number,
  ) {}

  /** The handlers of ProviderService. */
  service() {
    return { handshake: this.unary((request: api.HandshakeRequest) => this.handshake(request)), getStatus: this.unary(() => this.status()) };
  }

  /** The status of the provider; code that throws is BROKEN. */
  status(): api.GetStatusResponse {
    let status: DeepPartial<api.GetStatusResponse>;
    try {
      status = this.provider.status?.() ?? this.core.status;
    } catch (error) {
      log.error("the status of the provider failed; reported as broken", { handler: "status", error });
      status = { readiness: api.Readiness.BROKEN };
    }
    return whole(api.GetStatusResponse, { ...status, bootId: this.bootId });
  }

  /** True while calls are served, as grpc.health.v1 understands it. */
  isServing(): boolean {
    const { readiness } = this.status();
    return !this.core.isDraining && (readiness === api.Readiness.READY || readiness === api.Readiness.DEGRADED);
  }

  private unary<Q, S>(work: (request: Q) => S): grpc.handleUnaryCall<Q, S> {
    return (call, reply) => {
      try {
        this.core.admitNew();
        reply(null, work(call.request));
      } catch (error) {
        reply(grpcError(isMeant(error) ? error : new Failure("the provider failed")));
      }
    };
  }

  private handshake(request: api.HandshakeRequest): api.HandshakeResponse {
    checkMinors(request.minMinor, request.maxMinor);
    const { name = "", uid = "", podCidrs = [], serviceCidrs = [] } = request.cluster ?? {};
    const { controllerName, controllerVersion, kubernetesVersion } = request;
    log.info("handshake", { controller: controllerName, controller_version: controllerVersion, kubernetes_version: kubernetesVersion, cluster: name });
    this.core.shakeHands({ name, uid, podCidrs, serviceCidrs });
    const { provider } = this;
    return whole(api.HandshakeResponse, {
      minor: MINOR, providerName: provider.name, providerVersion: provider.version, bootId: this.bootId, capabilities: this.capabilities,
      withoutClusterId: provider.withoutClusterId, serviceAnnotationPrefixes: provider.serviceAnnotationPrefixes,
      nodeAnnotationPrefixes: provider.nodeAnnotationPrefixes, maxReceiveMessageBytes: this.maxMessageBytes, rateLimits: provider.rateLimits,
    });
  }
}

/** Throws unless the controller speaks this package's minor. */
function checkMinors(min: number, max: number): void {
  if (min === 0 || max < min) {
    throw new ProviderError("INVALID_REQUEST", `min_minor ${String(min)} and max_minor ${String(max)} are no range; send 1 <= min_minor <= max_minor`);
  }
  if (min <= MINOR && MINOR <= max) return;
  throw new ProviderError("VERSION_UNSUPPORTED", `the controller speaks minor ${String(min)} to ${String(max)} of cloudprovider.v1, `
    + `this provider ${String(MINOR)}; upgrade the older of them`);
}
