/** A probe: a kubelet cannot reach a Unix socket, so it runs a command in the container. */
import { credentials, Metadata, type ServiceError } from "@grpc/grpc-js";
import { type GetStatusResponse, ProviderServiceClient, Readiness } from "./gen/cloudprovider/v1/provider.js";

/** The result of a probe. */
export interface ProbeResult {
  /** A liveness probe fails if the provider does not answer or is BROKEN; a readiness probe also while it is STARTING. */
  isHealthy: boolean;
  /** For an operator. */
  sentence: string;
}

/** Asks the provider at the endpoint for its status, over a connection of its own, so that none hides a dead process. */
export async function probe(endpoint: string, { ready = false, timeout = 4_000 } = {}): Promise<ProbeResult> {
  const client = new ProviderServiceClient(endpoint, credentials.createInsecure(), { "grpc.default_authority": "localhost" });
  try {
    const { readiness, dependencies } = await new Promise<GetStatusResponse>((resolve, reject) => {
      client.getStatus({}, new Metadata(), { deadline: Date.now() + timeout }, (error, answer) => {
        if (error) reject(error); else resolve(answer);
      });
    });
    const failing = dependencies.filter((one) => one.readiness !== Readiness.READY).map(({ name, message }) => `${name} (${message})`);
    const because = failing.length > 0 ? `: ${failing.join(", ")}` : "";
    const state = readiness === Readiness.BROKEN ? "broken and wants a restart" : readiness in Readiness ? Readiness[readiness].toLowerCase() : String(readiness);
    const isHealthy = readiness !== Readiness.BROKEN && !(ready && readiness === Readiness.STARTING);
    return { isHealthy, sentence: `the provider at ${endpoint} is ${state}${because}` };
  } catch (error) {
    return { isHealthy: false, sentence: `the provider at ${endpoint} does not answer: ${(error as ServiceError).message}` };
  } finally {
    client.close();
  }
}
