/** A provider as its own process on a socket of its own, and clients of it. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type CallOptions, type ClientUnaryCall, credentials, Metadata, type ServiceError } from "@grpc/grpc-js";
import type { Node, Service } from "../gen/cloudprovider/v1/common.js";
import { Service as ServiceMessage, Node as NodeMessage } from "../gen/cloudprovider/v1/common.js";
import { InstancesServiceClient } from "../gen/cloudprovider/v1/instances.js";
import { LoadBalancersServiceClient } from "../gen/cloudprovider/v1/load_balancers.js";
import { NodeSetsServiceClient } from "../gen/cloudprovider/v1/node_sets.js";
import { ProviderServiceClient } from "../gen/cloudprovider/v1/provider.js";
import { ErrorInfo } from "../gen/google/rpc/error_details.js";
import { Status } from "../gen/google/rpc/status.js";

export const context = { requestId: "r-1", clusterName: "test", clusterUid: "uid-of-cluster" };

export async function temporarySocket(): Promise<string> {
  return join(await mkdtemp(join(tmpdir(), "provider-")), "provider.sock");
}

/** Resolves once it serves; rejects with what it wrote when it ended instead. */
export async function start(path: string, ...machines: string[]): Promise<ChildProcess> {
  const main = fileURLToPath(new URL("../src/main.js", import.meta.url));
  const env = { ...process.env, CLOUDPROVIDER_ENDPOINT: `unix://${path}` };
  const child = spawn(process.execPath, [main, ...machines], { env, stdio: ["ignore", "inherit", "pipe"] });
  let written = "";
  await new Promise<void>((resolve, reject) => {
    child.stderr.on("data", (bytes: Buffer) => {
      written += bytes.toString();
      if (written.includes('"serving"')) resolve();
    });
    child.on("exit", (code) => { reject(new Error(`ended with ${String(code)}: ${written}`)); });
  });
  return child;
}

export async function stop(child: ChildProcess, signal: NodeJS.Signals = "SIGTERM"): Promise<number | null> {
  const exit = child.exitCode === null && child.signalCode === null ? once(child, "exit") : undefined;
  child.kill(signal);
  await exit;
  return child.exitCode;
}

export function clients(path: string) {
  const options = { "grpc.default_authority": "localhost", "grpc.use_local_subchannel_pool": 1 };
  const made = <T>(Client: new (target: string, creds: ReturnType<typeof credentials.createInsecure>, o: object) => T) =>
    new Client(`unix:${path}`, credentials.createInsecure(), options);
  return {
    provider: made(ProviderServiceClient),
    instances: made(InstancesServiceClient),
    loadBalancers: made(LoadBalancersServiceClient),
    nodeSets: made(NodeSetsServiceClient),
  };
}

export type Clients = ReturnType<typeof clients>;

export function close(all: Clients): void {
  for (const client of Object.values(all)) client.close();
}

type Method<Q, S> = (
  request: Q, metadata: Metadata, options: CallOptions, done: (error: ServiceError | null, answer: S) => void,
) => ClientUnaryCall;

/** `ask(client.method.bind(client), request)`: a call as a promise, with a deadline of 10 s. */
export function ask<Q, S>(method: Method<Q, S>, request: Q): Promise<S> {
  return new Promise((resolve, reject) => {
    const done = (error: ServiceError | null, answer: S) => { if (error) reject(error); else resolve(answer); };
    method(request, new Metadata(), { deadline: Date.now() + 10_000 }, done);
  });
}

/** The reason under our domain, and the code, of a failed call. */
export async function refusal(call: Promise<unknown>): Promise<string> {
  const error = await call.then(() => { throw new Error("the call succeeded"); }, (error: unknown) => error as ServiceError);
  const [bytes] = error.metadata.get("grpc-status-details-bin");
  if (bytes === undefined) return `${String(error.code)} without details: ${error.details}`;
  return reasonOf(Status.decode(bytes as Buffer));
}

export function reasonOf(status: Status): string {
  const [detail] = status.details;
  if (detail === undefined) return "no details";
  const info = ErrorInfo.decode(detail.value);
  return `${String(status.code)} ${info.domain} ${info.reason}`;
}

export function node(name: string, fields: Partial<Node> = {}): Node {
  return NodeMessage.fromPartial({ name, uid: `uid-${name}`, ...fields });
}

export function service(name: string, fields: Partial<Service> = {}): Service {
  return ServiceMessage.fromPartial({
    namespace: "default", name, uid: `uid-${name}`, type: "LoadBalancer", ipFamilies: ["IPv4"],
    ports: [{ name: "", protocol: "TCP", port: 80, nodePort: 30080, targetPort: "80" }], ...fields,
  });
}

export function nodeAt(name: string, address: string): Node {
  return node(name, { addresses: [{ type: "InternalIP", address }] });
}

/** Polls until `look` gives a value; fails after 10 s. */
export async function eventually<T>(look: () => Promise<T | undefined>): Promise<T> {
  for (const end = Date.now() + 10_000; Date.now() < end; await new Promise((resolve) => setTimeout(resolve, 50))) {
    const value = await look();
    if (value !== undefined) return value;
  }
  throw new Error("not within 10 s");
}
