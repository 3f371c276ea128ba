/** ProviderService: the handshake, and the status by which the connection lives. */
import { randomUUID } from "node:crypto";
import type * as grpc from "@grpc/grpc-js";
import { type Core, shuttingDown } from "./core.js";
import { cut, Failure, grpcError, ProviderError } from "./errors.js";
import * as api from "./gen/cloudprovider/v1/provider.js";
import { log } from "./logging.js";
import { complete } from "./messages.js";
import type { Provider } from "./provider.js";

/** The minor revisions of the contract that this package speaks. */
const MIN_MINOR = 1;
const MAX_MINOR = 1;
/** A list in a status has at most so many entries. */
const MAX_ENTRIES = 32;

/** Which provider answers, which minor it speaks, and how it is. */
export class Identity {
  /** Another one in each process. */
  readonly bootId = randomUUID();

  constructor(private readonly core: Core, private readonly provider: Provider, private readonly capabilities: api.Capabilities) {}

  /** The handlers of ProviderService. */
  service(): api.ProviderServiceServer {
    return {
      handshake: this.unary((request: api.HandshakeRequest) => this.handshake(request)),
      getStatus: this.unary(() => this.status()),
    };
  }

  /** The status of the provider within the limits of the contract; code that throws is BROKEN. */
  status(): api.GetStatusResponse {
    let status;
    try {
      status = complete(api.GetStatusResponse, this.provider.status?.() ?? this.core.cloud.get(), "the status").message;
    } catch (error) {
      log.error("the status of the provider failed; reported as broken", { handler: "status", error });
      status = api.GetStatusResponse.fromPartial({ readiness: api.Readiness.BROKEN });
    }
    return {
      ...status, bootId: this.bootId,
      dependencies: status.dependencies.slice(0, MAX_ENTRIES).map((one) => ({ ...one, name: cut(one.name, 63), message: cut(one.message, 1024) })),
      quotas: status.quotas.slice(0, MAX_ENTRIES).map((one) => ({ ...one, name: cut(one.name, 63) })),
    };
  }

  /** True while calls are served, as grpc.health.v1 understands it. */
  isServing(): boolean {
    const { readiness } = this.status();
    return !this.core.isDraining && (readiness === api.Readiness.READY || readiness === api.Readiness.DEGRADED);
  }

  private unary<Q extends object, S>(work: (request: Q) => S): grpc.handleUnaryCall<Q, S> {
    return (call, reply) => {
      try {
        if (this.core.isDraining) throw shuttingDown();
        this.core.checkSize(call.request);
        reply(null, work(call.request));
      } catch (error) {
        reply(grpcError(error instanceof ProviderError ? error : new Failure("the provider failed; its log says why")));
      }
    };
  }

  private handshake(request: api.HandshakeRequest): api.HandshakeResponse {
    const minor = negotiate(request.minMinor, request.maxMinor);
    const { name = "", uid = "", podCidrs = [], serviceCidrs = [] } = request.cluster ?? {};
    log.info("handshake", {
      minor, controller: cut(request.controllerName, 253), controller_version: cut(request.controllerVersion, 253),
      kubernetes_version: cut(request.kubernetesVersion, 253), cluster: name,
    });
    this.core.shakeHands({ name, uid, podCidrs, serviceCidrs }, request.maxReceiveMessageBytes);
    const { provider } = this;
    return api.HandshakeResponse.fromPartial({
      minor, providerName: provider.name, providerVersion: provider.version ?? "", bootId: this.bootId, capabilities: this.capabilities,
      withoutClusterId: provider.withoutClusterId ?? false,
      serviceAnnotationPrefixes: [...provider.serviceAnnotationPrefixes ?? []],
      nodeAnnotationPrefixes: [...provider.nodeAnnotationPrefixes ?? []],
      maxReceiveMessageBytes: this.core.maxMessageBytes,
      rateLimits: (provider.rateLimits ?? []).map((limit) => complete(api.RateLimit, limit, "a rate limit").message),
    });
  }
}

/** The minor that both sides speak: the lower of both maxima, inside both ranges. */
export function negotiate(theirMin: number, theirMax: number): number {
  if (theirMin === 0 || theirMax < theirMin) {
    throw new ProviderError("INVALID_REQUEST", `min_minor ${String(theirMin)} and max_minor ${String(theirMax)} are no range; send 1 <= min_minor <= max_minor`);
  }
  const minor = Math.min(MAX_MINOR, theirMax);
  if (minor >= MIN_MINOR && minor >= theirMin) return minor;
  throw new ProviderError("VERSION_UNSUPPORTED", `the controller speaks minor ${String(theirMin)} to ${String(theirMax)} of cloudprovider.v1, `
    + `this provider ${String(MIN_MINOR)} to ${String(MAX_MINOR)}; upgrade the older of them`);
}
