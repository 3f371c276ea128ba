/** Instances: the machines of the cloud. */
import { type Instances, ProviderError, type Result, v1 } from "@outrigger/provider";
import type { Cloud, Machine } from "./cloud.js";

const SCHEME = "memory://";

/** The instances of the cloud. */
export function instances(cloud: Cloud): Instances {
  return {
    capability: { lookupPreference: v1.LookupPreference.BATCH },
    async batchGetInstances(nodes, call) {
      // One cloud call for all of them, without a cache: an absence is CONFIRMED.
      const machines = await cloud.listMachines(call.signal);
      return nodes.map((node) => [node.name, lookup(node, machines)] as const);
    },
    async* listInstances(call) {
      for (const machine of await cloud.listMachines(call.signal)) yield instance(machine);
    },
  };
}

function lookup({ name, providerId }: v1.Node, machines: readonly Machine[]): Result<v1.Instance> {
  if (providerId && !providerId.startsWith(SCHEME)) return { notManaged: `${providerId} is another provider's` };
  if (providerId && !/^i-[0-9a-f]{12}$/.test(providerId.slice(SCHEME.length))) {
    return { error: new ProviderError("MALFORMED_PROVIDER_ID", `${providerId} is no id of this cloud`) };
  }
  const machine = machines.find((one) => (providerId ? SCHEME + one.id === providerId : one.name === name));
  return machine ? { found: instance(machine) } : { absent: "CONFIRMED" };
}

function instance({ id, name, address, running }: Machine) {
  return {
    providerId: SCHEME + id,
    nodeName: name,
    instanceType: "memory.small",
    zone: "memory-1a",
    region: "memory-1",
    addresses: [{ type: "InternalIP", address }, { type: "Hostname", address: name }],
    powerState: running ? v1.PowerState.RUNNING : v1.PowerState.SHUTDOWN,
  };
}
