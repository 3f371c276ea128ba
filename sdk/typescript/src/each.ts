/** Work on the items of a batch one by one, with a deadline, and with errors that concern all of them. */
import { status } from "@grpc/grpc-js";
import type { Call } from "./call.js";
import { CallerGone, Failure, ProviderError, stopsTheClass } from "./errors.js";
import type { Result } from "./results.js";

/** How long before its deadline a batch of lookups is answered, at most: enough to send the answer. */
const ANSWER_MARGIN_MS = 1000;

const notAsked = new Failure("not asked about, other objects took the time", status.DEADLINE_EXCEEDED);
const notAnswered = new Failure("the cloud has not answered about this object", status.DEADLINE_EXCEEDED);

/**
 * Works on each item of a batch by itself, at most `concurrency` at a time. An exception concerns its item only. Once the
 * cloud limits the rate, refuses the credentials or is away, the items that were not begun yet get that error too; once the
 * caller is gone, no other item is begun.
 *
 * Shortly before the deadline of a lookup it resolves with the results that are there, and an error for each other item:
 * one that hangs must not take the answers about the others with it. The order changes from call to call, so that no item
 * is always behind those that hang.
 */
export async function each<I extends object, T>(
  call: Call, items: readonly I[], work: (item: I) => Promise<Result<T>> | Result<T>, concurrency = 8,
): Promise<Map<string, Result<T>>> {
  const results = new Map<string, Result<T>>(items.map((item) => [call.keyOf(item), { error: notAsked }]));
  const order = items.map((item) => ({ item, place: Math.random() })).sort((a, b) => a.place - b.place).map(({ item }) => item);
  const begin = (item: I) => {
    results.set(call.keyOf(item), { error: notAnswered });
    return work(item);
  };
  const ended = eachItem(call, order, concurrency, begin, (item, result) => { results.set(call.keyOf(item), result); });
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    const left = call.deadline.getTime() - Date.now();
    if (!call.method.changesCloud) timer = setTimeout(resolve, left - Math.min(ANSWER_MARGIN_MS, left / 10));
  });
  await Promise.race([ended, late]);
  clearTimeout(timer);
  // A result that comes from now on is not in the answer.
  return new Map(results);
}

/** Hands the result of each item to `done`. */
export async function eachItem<I, T>(
  call: Call, items: readonly I[], concurrency: number, work: (item: I) => Promise<Result<T>> | Result<T>,
  done: (item: I, result: Result<T>) => Promise<void> | void,
): Promise<void> {
  let next = 0;
  let stop: ProviderError | undefined;
  const worker = async () => {
    for (let item = items[next]; item !== undefined && !stop && !call.callerGone.aborted; item = items[next]) {
      next++;
      let result: Result<T>;
      try {
        result = await work(item);
      } catch (error) {
        result = { error };
      }
      await done(item, result);
      if (typeof result === "object" && "error" in result && stopsTheClass(result.error)) stop ??= result.error;
    }
  };
  await Promise.all(Array.from({ length: Math.max(concurrency, 1) }, worker));
  // Effects stay with the first.
  const rest = stop ? new ProviderError(stop.reason, stop.message, { retryAfter: stop.retryAfter }) : new CallerGone();
  for (const item of items.slice(next)) await done(item, { error: rest });
}
