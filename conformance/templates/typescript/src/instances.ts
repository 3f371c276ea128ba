import { type Instances, ProviderError, type Result, v1 } from "@outrigger/provider";
import { type Machine, machines } from "./cloud.js";

export const SCHEME = "my-cloud://";

export const instances: Instances = {
  async batchGetInstances(nodes, call) {
    // One call to the cloud for all of them. Where it throws, the whole call is an error, and no Node changes.
    const all = await machines(call.signal);
    return nodes.map((node) => [node.name, lookup(node, all)] as const);
  },
};

export function lookup({ name, providerId }: Pick<v1.Node, "name" | "providerId">, all: Machine[]): Result<v1.Instance> {
  if (providerId && !providerId.startsWith(SCHEME)) return { notManaged: `${providerId} is another cloud's` };
  const id = providerId.slice(SCHEME.length);
  if (providerId && !/^[a-z0-9-]+$/.test(id)) return { error: new ProviderError("MALFORMED_PROVIDER_ID", `${providerId} is no ID`) };
  const [machine, other] = all.filter((one) => (providerId ? one.id === id : one.hostname === name));
  if (other) return { error: new ProviderError("CLOUD_ERROR", `two machines are named ${name}`) };
  // The controller may delete the Node. The cloud was asked during this call and showed everything.
  if (!machine) return { absent: "CONFIRMED" };
  return {
    found: {
      providerId: SCHEME + machine.id,
      addresses: [{ type: "InternalIP", address: machine.address }],
      powerState: machine.running ? v1.PowerState.RUNNING : v1.PowerState.SHUTDOWN,
    },
  };
}
