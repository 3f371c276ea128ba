/** A probe: a kubelet cannot reach a Unix socket, so it runs a command in the container. */
import { credentials, Metadata, type ServiceError } from "@grpc/grpc-js";
import { type GetStatusResponse, ProviderServiceClient, Readiness } from "../gen/cloudprovider/v1/provider.js";

/** Asks whether the provider answers and is not broken, and for a sentence about it. */
export async function probe(endpoint: string, milliseconds = 3_000): Promise<{ answers: boolean; sentence: string }> {
  // A connection of its own, so that none hides a dead process.
  const client = new ProviderServiceClient(endpoint, credentials.createInsecure(), { "grpc.default_authority": "localhost" });
  try {
    const status = await new Promise<GetStatusResponse>((resolve, reject) => {
      client.getStatus({}, new Metadata(), { deadline: Date.now() + milliseconds }, (error, answer) => {
        if (error) reject(error); else resolve(answer);
      });
    });
    const { readiness } = status;
    const state = readiness in Readiness ? Readiness[readiness].toLowerCase() : String(readiness);
    return { answers: readiness !== Readiness.BROKEN, sentence: `the provider at ${endpoint} is ${state}` };
  } catch (error) {
    return { answers: false, sentence: `the provider at ${endpoint} does not answer: ${(error as ServiceError).message}` };
  } finally {
    client.close();
  }
}
