/** A cloud in memory, with an API as clouds have it: calls take time, and load balancers carry tags. */
import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { ServiceRef } from "../gen/cloudprovider/v1/common.js";
import { ProviderError } from "./errors.js";

/** A machine of the cloud; its id and address follow from its name. */
export interface Machine { id: string; address: string; name: string; running: boolean }

/** The specification of a Service: the cloud reads the families and keeps the rest. */
export interface Spec extends Record<string, unknown> { families: string[]; targets: string[] }

/** A load balancer; the UIDs of cluster and Service are its tags. */
export interface Balancer {
  id: string;
  cluster: string;
  service: ServiceRef;
  spec: Spec;
  addresses: string[];
  activeAt: number;
}

/** The cloud of one process. A call takes a signal, which ends reads and keeps changes from beginning. */
export class Cloud {
  readonly machines: ReadonlyMap<string, Machine>;
  readonly balancers = new Map<string, Balancer>();
  private made = 0;

  /** Machines are names; `name=off` is one that is stopped. */
  constructor(machines: readonly string[], private readonly latencyMs = 5, private readonly activationMs = 500) {
    this.machines = new Map(machines.map((text) => {
      const [name = "", state] = text.split("=");
      const digest = createHash("sha256").update(name).digest();
      const machine = { id: `i-${digest.toString("hex", 0, 6)}`, address: `10.${digest.subarray(6, 9).join(".")}` };
      return [machine.id, { ...machine, name, running: state !== "off" }];
    }));
  }

  async read<T>(signal: AbortSignal, look: (cloud: this) => T): Promise<T> {
    await sleep(this.latencyMs, undefined, { signal });
    return look(this);
  }

  find(signal: AbortSignal, cluster: string, uid: string): Promise<Balancer | undefined> {
    const tagged = (one: Balancer) => one.cluster === cluster && one.service.uid === uid;
    return this.read(signal, ({ balancers }) => [...balancers.values()].find(tagged));
  }

  /** Makes or changes a load balancer. It gets the addresses of `desired` that are free, or others; never those of `held`. */
  put(signal: AbortSignal, desired: Omit<Balancer, "id" | "activeAt"> & Partial<Balancer>, held: readonly string[] = []) {
    return this.change(signal, () => {
      const others = [...this.balancers.values()].filter(({ id }) => id !== desired.id);
      const used = new Set([...held, ...others.flatMap(({ addresses }) => addresses)]);
      const addresses = desired.spec.families.map((family) => {
        const isFree = (ip: string) => ip.includes(":") === (family === "IPv6") && !used.has(ip);
        return desired.addresses.find(isFree) ?? freeAddress(family, used);
      });
      const activeAt = Date.now() + this.activationMs;
      const balancer = { id: `lb-${String(++this.made)}`, activeAt, ...desired, addresses };
      this.balancers.set(balancer.id, balancer);
      return balancer;
    });
  }

  delete(signal: AbortSignal, { id }: Balancer): Promise<boolean> {
    return this.change(signal, () => this.balancers.delete(id));
  }

  /** A change that has begun ends; no change begins after a cancel. */
  private async change<T>(signal: AbortSignal, work: () => T): Promise<T> {
    signal.throwIfAborted();
    await sleep(this.latencyMs);
    return work();
  }
}

function freeAddress(family: string, used: Set<string>): string {
  for (let n = 1; n < 65_535; n++) {
    const four = `198.18.${String(n >> 8)}.${String(n & 255)}`;
    const address = family === "IPv6" ? `2001:db8:1b::${n.toString(16)}` : four;
    if (!used.has(address)) return address;
  }
  throw new ProviderError("QUOTA_EXCEEDED", `no ${family} address is free`);
}
