/** Results of a batch: one for each item, by its key. */
import type { Call } from "./call.js";
import { cut, Failure, ProviderError, statusOfCall, statusOfItem } from "./errors.js";
import { Absent, AbsenceCertainty, KubernetesEffects, type NotManaged } from "./gen/cloudprovider/v1/common.js";
import type { Status } from "./gen/google/rpc/status.js";
import { complete, type MessageType } from "./messages.js";
import type { DeepPartial } from "./partial.js";

/**
 * The answer about one item. `absent: "CONFIRMED"` says that the cloud was asked during this call (or is `ageSeconds` old,
 * which is sent as NOT_VISIBLE_YET if that is longer), with the permission to see all of the cluster, and has no such object:
 * A NODE MAY BE DELETED. `notManaged` says that it is another provider's, and why. `error` is why there is no answer; nothing changes.
 */
export type Result<T> = (
  | { found: DeepPartial<T> }
  | { absent: "CONFIRMED" | "NOT_VISIBLE_YET"; ageSeconds?: number; reason?: string }
  | { notManaged: string }
  | { error: unknown }
) & {
  /** Events, annotations and conditions of the Node; a volume has none. */
  effects?: DeepPartial<KubernetesEffects>;
};

/** Results by the keys of their items, such as a Map. An item without one is answered with an error. */
export type Results<T> = Iterable<readonly [key: string, result: Result<T>]>;

type Outcome<T> =
  | { $case: "found"; value: T }
  | { $case: "absent"; value: Absent }
  | { $case: "notManaged"; value: NotManaged }
  | { $case: "error"; value: Status };

/** A result as it is sent. */
export interface SentResult<T> {
  key: string;
  outcome: Outcome<T>;
  effects: KubernetesEffects | undefined;
}

/** The results of a batch, one for each of its items. */
export async function batch<T extends object>(
  call: Call, items: readonly object[], type: MessageType<T>, work: () => Promise<Results<T>> | Results<T>, hasEffects = true,
): Promise<SentResult<T>[]> {
  const began = Date.now();
  const answered = await work();
  if (!isIterable(answered)) throw new Failure(`${call.rpc} answered ${typeof answered}, not results such as a Map from keys`);
  const results = new Map<string, Result<T> | undefined>(answered);
  const seconds = (Date.now() - began) / 1000;
  const sent = items.map((item) => {
    const key = call.keyOf(item);
    const result = results.get(key);
    results.delete(key);
    return resultOf(call, key, type, result, seconds, hasEffects);
  });
  for (const key of results.keys()) call.log.warn("a batch has a result for an item that the request does not have", { item: key });
  return sent;
}

function isIterable(value: unknown): boolean {
  return typeof value === "object" && value !== null && Symbol.iterator in value;
}

/** One result as it is sent. `seconds` is how long its call has run. */
export function resultOf<T extends object>(
  call: Call, key: string, type: MessageType<T>, result: Result<NoInfer<T>> | undefined, seconds: number, hasEffects = true,
): SentResult<T> {
  try {
    if (result === undefined) throw new Failure("the provider returned no result for this item");
    if ("error" in result) throw result.error;
    const effects = result.effects && complete(KubernetesEffects, result.effects, "effects").message;
    return { key, outcome: outcomeOf(type, result, seconds), effects };
  } catch (thrown) {
    const error = call.meant(thrown);
    const effects = result?.effects ? KubernetesEffects.fromPartial(result.effects as KubernetesEffects) : error instanceof ProviderError ? error.effects : undefined;
    return { key, outcome: { $case: "error", value: hasEffects ? statusOfItem(error) : statusOfCall(error) }, effects };
  }
}

function outcomeOf<T extends object>(type: MessageType<T>, result: Exclude<Result<T>, { error: unknown }>, seconds: number): Outcome<T> {
  if ("found" in result) return { $case: "found", value: complete(type, result.found, "the result").message };
  if ("notManaged" in result) return { $case: "notManaged", value: { reason: cut(result.notManaged, 1024) } };
  // The compiler has not seen what JavaScript answers.
  if (!["CONFIRMED", "NOT_VISIBLE_YET"].includes(result.absent)) throw new Failure("the result has none of found, absent, notManaged and error");
  const { absent, ageSeconds = 0, reason = "" } = result;
  // An observation from before the call is a cache, whatever its author says.
  const certainty = absent === "CONFIRMED" && ageSeconds <= seconds ? AbsenceCertainty.CONFIRMED : AbsenceCertainty.NOT_VISIBLE_YET;
  const age = ageSeconds > 0 ? { seconds: Math.floor(ageSeconds), nanos: Math.floor((ageSeconds % 1) * 1e9) } : undefined;
  return { $case: "absent", value: Absent.fromPartial({ certainty, reason: cut(reason, 1024), ...(age && { age }) }) };
}

/** Leaves effects out of an answer that is too large with them; refuses one that the caller would refuse. */
export function fit<R extends { results: object[] }>(call: Call, type: MessageType<R>, response: R): R {
  const size = (one: R) => type.encode(one).finish().length;
  const whole = size(response);
  if (whole <= call.maxSendBytes) return response;
  const bare = { ...response, results: response.results.map((result) => ({ ...result, effects: undefined })) };
  const bytes = size(bare);
  if (bytes < whole) {
    call.log.warn("the effects of a batch are left out, since its answer is too large; send fewer or shorter ones", { bytes: whole, limit: call.maxSendBytes });
  }
  if (bytes > call.maxSendBytes) {
    throw new Failure(`the answer has ${String(bytes)} bytes, more than the ${String(call.maxSendBytes)} that the controller accepts; lower maxBatchSize of the capability`);
  }
  return bare;
}
