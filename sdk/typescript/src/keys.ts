/** Limits of changes: one at a time for each key, and in all as many as the provider declares. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Call } from "./call.js";
import { ProviderError } from "./errors.js";

/** How long a call waits for another one of its key; the controller repeats it a second later. */
const PATIENCE_MS = 10_000;

/**
 * One change of a key at a time, and no more than `maxInFlight` in all; 0: no limit. The controller keeps to both, but work
 * outlives a call whose caller is gone, and holds its key and its place until it has ended.
 */
export class Keys {
  private readonly running = new Map<string, Promise<unknown>>();
  private readonly waiting: (() => void)[] = [];
  private places: number;

  constructor(maxInFlight: number) {
    this.places = maxInFlight || Infinity;
  }

  /** Does the work once no other call has the key. */
  async run<T>(call: Call, key: string, work: () => Promise<T> | T): Promise<T> {
    for (let other = this.running.get(key); other; other = this.running.get(key)) {
      const late = sleep(PATIENCE_MS, "late", { signal: call.callerGone, ref: false });
      const first = await Promise.race([other, late]).catch(() => { call.check(); });
      if (first === "late") throw new ProviderError("OPERATION_IN_PROGRESS", `another call about ${key} is running`, { retryAfter: 1 });
    }
    const result = this.inPlace(call, work);
    this.running.set(key, result.then(() => undefined, () => undefined).finally(() => this.running.delete(key)));
    return result;
  }

  private async inPlace<T>(call: Call, work: () => Promise<T> | T): Promise<T> {
    if (this.places > 0) this.places--;
    else await new Promise<void>((resolve) => this.waiting.push(resolve));
    try {
      call.check();
      return await work();
    } finally {
      // A call that waits takes the place over.
      const next = this.waiting.shift();
      if (next) next();
      else this.places++;
    }
  }
}
