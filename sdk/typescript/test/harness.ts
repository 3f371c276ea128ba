/** A provider on a socket of its own, in this process or as one of its own, and clients of it. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { type CallOptions, type ClientUnaryCall, credentials, Metadata, type ServiceError } from "@grpc/grpc-js";
import { ErrorInfo } from "../src/gen/google/rpc/error_details.js";
import { Status } from "../src/gen/google/rpc/status.js";
import { type Provider, serve, v1 } from "../src/index.js";

export const context = { requestId: "r-1", clusterName: "test", clusterUid: "uid-of-cluster" };
export const range = {
  minMinor: 1, maxMinor: 1, controllerName: "test", controllerVersion: "", kubernetesVersion: "",
  cluster: { name: "test", uid: "uid-of-cluster", podCidrs: [], serviceCidrs: [] }, maxReceiveMessageBytes: 0,
};

export async function temporarySocket(): Promise<string> {
  return join(await mkdtemp(join(tmpdir(), "provider-")), "provider.sock");
}

export function clients(path: string) {
  const options = { "grpc.default_authority": "localhost", "grpc.use_local_subchannel_pool": 1 };
  const made = <T>(Client: new (target: string, creds: ReturnType<typeof credentials.createInsecure>, o: object) => T) =>
    new Client(`unix:${path}`, credentials.createInsecure(), options);
  return {
    provider: made(v1.ProviderServiceClient), instances: made(v1.InstancesServiceClient), loadBalancers: made(v1.LoadBalancersServiceClient),
    nodeSets: made(v1.NodeSetsServiceClient), routes: made(v1.RoutesServiceClient), volumes: made(v1.VolumesServiceClient),
  };
}

export type Clients = ReturnType<typeof clients>;

export function close(all: Clients): void {
  for (const client of Object.values(all)) client.close();
}

/** A provider that is served in this process, and has shaken hands unless `isNew`. */
export async function served(t: TestContext, provider: Partial<Provider>, isNew = false) {
  const path = await temporarySocket();
  const stop = new AbortController();
  const ended = serve({ name: "test", ...provider }, `unix://${path}`, stop.signal);
  const all = clients(path);
  t.after(async () => {
    close(all);
    stop.abort();
    await ended;
  });
  await Promise.race([ended, eventually(() => existsSync(path) || undefined)]);
  if (!isNew) await ask(all.provider.handshake.bind(all.provider), range);
  return { ...all, path, stop, ended };
}

export interface Child {
  process: ChildProcess;
  /** Its stderr until now. */
  log(): string;
}

/** A file of test/programs as a process of its own. Resolves once it serves; rejects with what it wrote when it ended instead. */
export async function start(program: string, path: string, ...args: string[]): Promise<Child> {
  const main = fileURLToPath(new URL(`programs/${program}.js`, import.meta.url));
  const env = { ...process.env, CLOUDPROVIDER_ENDPOINT: `unix://${path}`, LOG_LEVEL: "info" };
  const child = spawn(process.execPath, [main, ...args], { env, stdio: ["ignore", "inherit", "pipe"] });
  let written = "";
  await new Promise<void>((resolve, reject) => {
    child.stderr.on("data", (bytes: Buffer) => {
      written += bytes.toString();
      if (written.includes('"serving"')) resolve();
    });
    child.on("close", (code) => { reject(new Error(`ended with ${String(code)}: ${written}`)); });
  });
  return { process: child, log: () => written };
}

export async function stop({ process: child }: Child, signal: NodeJS.Signals = "SIGTERM"): Promise<number | null> {
  const exit = child.exitCode === null && child.signalCode === null ? once(child, "exit") : undefined;
  child.kill(signal);
  await exit;
  return child.exitCode;
}

type Method<Q, S> = (
  request: Q, metadata: Metadata, options: CallOptions, done: (error: ServiceError | null, answer: S) => void,
) => ClientUnaryCall;

/** `ask(client.method.bind(client), request)`: a call as a promise, with a deadline of 10 s unless it is given. */
export function ask<Q, S>(method: Method<Q, S>, request: Q, milliseconds = 10_000): Promise<S> {
  return new Promise((resolve, reject) => {
    const done = (error: ServiceError | null, answer: S) => { if (error) reject(error); else resolve(answer); };
    method(request, new Metadata(), { deadline: Date.now() + milliseconds }, done);
  });
}

/** The status of a failed call, from its trailer. */
export async function statusOf(call: Promise<unknown>): Promise<Status> {
  const error = await call.then(() => { throw new Error("the call succeeded"); }, (error: unknown) => error as ServiceError);
  const [bytes] = error.metadata.get("grpc-status-details-bin");
  return bytes === undefined ? { code: error.code, message: error.details, details: [] } : Status.decode(bytes as Buffer);
}

/** The reason and the text of a status; without a reason the code. */
export function reasonOf({ code, message, details: [detail] }: Status): string {
  if (detail === undefined) return `${String(code)}: ${message}`;
  const { domain, reason } = ErrorInfo.decode(detail.value);
  return domain === "cloudprovider.v1" ? `${reason}: ${message}` : `${reason} of ${domain}`;
}

export async function refusal(call: Promise<unknown>): Promise<string> {
  return reasonOf(await statusOf(call));
}

export function node(name: string, fields: Partial<v1.Node> = {}): v1.Node {
  return v1.Node.fromPartial({ name, uid: `uid-${name}`, ...fields });
}

export function service(name: string, fields: Partial<v1.Service> = {}): v1.Service {
  return v1.Service.fromPartial({
    namespace: "default", name, uid: `uid-${name}`, type: "LoadBalancer", ipFamilies: ["IPv4"],
    ports: [{ name: "", protocol: "TCP", port: 80, nodePort: 30080, targetPort: "80" }], ...fields,
  });
}

export const inline = (...nodes: v1.Node[]): v1.NodeTargets => ({ targets: { $case: "inline", value: { nodes } } });

/** Polls until `look` gives a value; fails after 10 s. */
export async function eventually<T>(look: () => Promise<T | undefined> | T | undefined): Promise<T> {
  for (const end = Date.now() + 10_000; Date.now() < end; await new Promise((resolve) => setTimeout(resolve, 20))) {
    const value = await look();
    if (value !== undefined) return value;
  }
  throw new Error("not within 10 s");
}
