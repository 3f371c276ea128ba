/** A cloud in memory, with an API as clouds have it: calls take time and can fail, and load balancers carry tags. */
import { createHash } from "node:crypto";
import { writeFileSync } from "node:fs";
import { appendFile, readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { ProviderError, type v1 } from "@outrigger/provider";

/** A machine of the cloud; its id and address follow from its name. */
export interface Machine { id: string; address: string; name: string; running: boolean }

/** The specification of a Service: the cloud reads the families and keeps the rest. */
export interface Spec extends Record<string, unknown> { families: string[]; targets: string[] }

/** A load balancer; the UIDs of cluster and Service are its tags. */
export interface Balancer {
  id: string;
  cluster: string;
  service: v1.ServiceRef;
  spec: Spec;
  addresses: string[];
  activeAt: number;
}

/** The load balancers that the account has room for. */
const ROOM = 16;
const LATENCY_MS = 5;
const ACTIVATION_MS = 500;

/** The cloud of one process. A signal ends the wait for a call. */
export class Cloud {
  readonly machines: readonly Machine[];
  private readonly balancers = new Map<string, Balancer>();
  private made = 0;

  /**
   * Machines are names; `name=off` is one that is stopped. The file `switches` has how the cloud is, unless it is on: off,
   * limited, locked or hangs. Its calls are counted in the file beside it.
   */
  constructor(machines: readonly string[], private readonly switches?: string) {
    this.machines = machines.map((text) => {
      const [name = "", state] = text.split("=");
      const digest = createHash("sha256").update(name).digest();
      return { id: `i-${digest.toString("hex", 0, 6)}`, address: `10.${digest.subarray(6, 9).join(".")}`, name, running: state !== "off" };
    });
    this.note();
  }

  /** Shows beside the file `switches` what there is, for those that look at the cloud from outside. */
  private note(): void {
    if (this.switches === undefined) return;
    const shown = [...this.balancers.values()].map((one) => ({ ...one, activeAt: undefined }));
    writeFileSync(`${this.switches}.state`, JSON.stringify(shown));
  }

  async listMachines(signal: AbortSignal): Promise<readonly Machine[]> {
    await this.request("read", signal);
    return this.machines;
  }

  async listBalancers(signal: AbortSignal, cluster: string): Promise<Balancer[]> {
    await this.request("read", signal);
    return [...this.balancers.values()].filter((one) => one.cluster === cluster);
  }

  async find(signal: AbortSignal, cluster: string, uid: string): Promise<Balancer | undefined> {
    return (await this.listBalancers(signal, cluster)).find(({ service }) => service.uid === uid);
  }

  /** Makes or changes a load balancer. It gets the addresses of `desired` that are free, or others. */
  async put(signal: AbortSignal, desired: Omit<Balancer, "id" | "activeAt"> & Partial<Balancer>): Promise<Balancer> {
    await this.request("change", signal);
    const others = [...this.balancers.values()].filter(({ id }) => id !== desired.id);
    if (others.length >= ROOM) throw new ProviderError("QUOTA_EXCEEDED", `the account has room for ${String(ROOM)} load balancers`);
    const used = new Set(others.flatMap(({ addresses }) => addresses));
    const addresses = desired.spec.families.map((family) => {
      const isFree = (ip: string) => ip.includes(":") === (family === "IPv6") && !used.has(ip);
      return desired.addresses.find(isFree) ?? freeAddress(family, used);
    });
    const balancer = { id: `lb-${String(++this.made)}`, activeAt: Date.now() + ACTIVATION_MS, ...desired, addresses };
    this.balancers.set(balancer.id, balancer);
    this.note();
    return balancer;
  }

  async delete(signal: AbortSignal, { id }: Balancer): Promise<void> {
    await this.request("change", signal);
    this.balancers.delete(id);
    this.note();
  }

  /** One request to the API. */
  private async request(kind: "read" | "change", signal: AbortSignal): Promise<void> {
    await sleep(LATENCY_MS, undefined, { signal });
    if (this.switches === undefined) return;
    await appendFile(`${this.switches}.calls`, `${kind}\n`);
    for (;;) {
      const state = (await readFile(this.switches, "utf8").catch(() => "on")).trim();
      if (state === "off") throw new ProviderError("CLOUD_UNAVAILABLE", "the cloud does not answer");
      if (state === "limited") throw new ProviderError("RATE_LIMITED", "429: too many requests", { retryAfter: 1 });
      if (state === "locked") throw new ProviderError("CREDENTIALS_INVALID", "401: renew the token of this provider");
      if (state !== "hangs") return;
      await sleep(20, undefined, { signal });
    }
  }
}

function freeAddress(family: string, used: Set<string>): string {
  for (let n = 1; n < 65_535; n++) {
    const address = family === "IPv6" ? `2001:db8:1b::${n.toString(16)}` : `198.18.${String(n >> 8)}.${String(n & 255)}`;
    if (!used.has(address)) return address;
  }
  throw new ProviderError("QUOTA_EXCEEDED", `no ${family} address is free`);
}
