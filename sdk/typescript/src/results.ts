/** Answers of lookups: about each node of a batch, and about a volume. */
import type { Call } from "./call.js";
import { durationOf, ProviderError, statusOf } from "./errors.js";
import { Absent, AbsenceCertainty, KubernetesEffects, type NotManaged } from "./gen/cloudprovider/v1/common.js";
import { Instance, type InstanceResult } from "./gen/cloudprovider/v1/instances.js";
import { type DeepPartial, type MessageType, whole } from "./partial.js";

/**
 * The answer of the cloud. `absent: "CONFIRMED"` says that the cloud was asked during this call (or `ageSeconds` before the
 * answer), with the permission to see all of the cluster, and has no such object: A NODE MAY BE DELETED. `notManaged` says
 * that it is another provider's, and why.
 */
export type Lookup<T> =
  | { found: DeepPartial<T> }
  | { absent: "CONFIRMED" | "NOT_VISIBLE_YET"; ageSeconds?: number; reason?: string }
  | { notManaged: string };

/** The answer about one node. `error` is why there is none; nothing changes. */
export type Result<T> = (Lookup<T> | { error: unknown }) & {
  /** Events, annotations and conditions of the Node. */
  effects?: DeepPartial<KubernetesEffects>;
};

/** Results by the keys of their items, such as a Map. */
export type Results<T> = Iterable<readonly [key: string, result: Result<T>]>;

type Outcome<T> = { $case: "found"; value: T } | { $case: "absent"; value: Absent } | { $case: "notManaged"; value: NotManaged };

/** An answer of a lookup as it is sent. */
export function outcomeOf<T extends object>(type: MessageType<T>, lookup: Lookup<NoInfer<T>>): Outcome<T> {
  if ("found" in lookup) return { $case: "found", value: whole(type, lookup.found) };
  if ("notManaged" in lookup) return { $case: "notManaged", value: { reason: lookup.notManaged } };
  const { absent, ageSeconds, reason = "" } = lookup;
  const age = ageSeconds === undefined ? undefined : durationOf(ageSeconds);
  return { $case: "absent", value: whole(Absent, { certainty: AbsenceCertainty[absent], age, reason }) };
}

/** The answer about one node as it is sent. */
export function resultOf(call: Call, key: string, result: Result<Instance>): InstanceResult {
  try {
    if ("error" in result) throw result.error;
    return { key, outcome: outcomeOf(Instance, result), effects: result.effects && whole(KubernetesEffects, result.effects) };
  } catch (thrown) {
    const error = call.meant(thrown);
    const effects = error instanceof ProviderError ? error.effects : undefined;
    return { key, outcome: { $case: "error", value: statusOf(error) }, effects: result.effects ? whole(KubernetesEffects, result.effects) : effects };
  }
}
