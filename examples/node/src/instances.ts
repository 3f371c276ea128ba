/** InstancesService: the machines of the cloud. */
import { AbsenceCertainty, type Node } from "../gen/cloudprovider/v1/common.js";
import * as api from "../gen/cloudprovider/v1/instances.js";
import type { Calls } from "./calls.js";
import type { Cloud, Machine } from "./cloud.js";
import { ProviderError } from "./errors.js";

const SCHEME = "memory://";
/** The largest batch of lookups. */
export const MAX_BATCH = 100;

/** The handlers of InstancesService. */
export function instances(cloud: Cloud, calls: Calls) {
  return {
    batchGetInstances: calls.unary(async ({ items }: api.BatchGetInstancesRequest, signal) => {
      // One cloud call for all of them, without a cache: an absence is CONFIRMED.
      const machines = await cloud.read(signal, ({ machines }) => [...machines.values()]);
      const results = items.map((node) => ({ key: node.name, outcome: outcome(node, machines) }));
      return api.BatchGetInstancesResponse.fromPartial({ results });
    }),
  } satisfies Partial<api.InstancesServiceServer>;
}

function outcome({ name, providerId }: Node, machines: Machine[]): api.InstanceResult["outcome"] {
  if (providerId && !providerId.startsWith(SCHEME)) {
    return { $case: "notManaged", value: { reason: `${providerId} is another provider's` } };
  }
  if (providerId && !/^i-[0-9a-f]{12}$/.test(providerId.slice(SCHEME.length))) {
    return { $case: "error", value: new ProviderError("MALFORMED_PROVIDER_ID", `${providerId} is no id`).status };
  }
  const machine = machines.find((one) => (providerId ? SCHEME + one.id === providerId : one.name === name));
  if (machine) return { $case: "found", value: instance(machine) };
  return { $case: "absent", value: { certainty: AbsenceCertainty.CONFIRMED, age: undefined, reason: "" } };
}

function instance({ id, name, address, running }: Machine): api.Instance {
  return api.Instance.fromPartial({
    providerId: SCHEME + id,
    nodeName: name,
    instanceType: "memory.small",
    zone: "memory-1a",
    region: "memory-1",
    addresses: [{ type: "InternalIP", address }, { type: "Hostname", address: name }],
    powerState: running ? api.PowerState.RUNNING : api.PowerState.SHUTDOWN,
  });
}
