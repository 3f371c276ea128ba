/** Limits of changes: one at a time for each key, and in all as many as the provider declares. */
import type { Call } from "./call.js";
import { ProviderError } from "./errors.js";

/** One piece of work for each key at a time. The key is kept until the work has ended, also where its caller is gone. */
export class KeyLocks {
  private readonly locks = new Map<string, Promise<void>>();

  /** A call waits `patience` milliseconds for another of its key, and is then told to come again after `retryAfter` seconds. */
  constructor(private readonly patience: number, private readonly retryAfter = 0) {}

  /** Waits until no other call has the key; what is returned releases it. */
  async lock(call: Call, key: string): Promise<() => void> {
    const end = Date.now() + this.patience;
    for (let other = this.locks.get(key); other; other = this.locks.get(key)) {
      if (!(await endsWithin(other, end - Date.now(), call.callerGone))) {
        throw new ProviderError("OPERATION_IN_PROGRESS", `another call about ${key} is running`, { retryAfter: this.retryAfter });
      }
    }
    let release: () => void = () => undefined;
    this.locks.set(key, new Promise<void>((resolve) => { release = resolve; }));
    return () => {
      this.locks.delete(key);
      release();
    };
  }
}

/** Throws if the caller gives up meanwhile. */
async function endsWithin(work: Promise<void>, milliseconds: number, callerGone: AbortSignal): Promise<boolean> {
  callerGone.throwIfAborted();
  if (milliseconds <= 0) return false;
  let timer: NodeJS.Timeout | undefined;
  let giveUp: () => void = () => undefined;
  const isTimely = await Promise.race([
    work.then(() => true),
    new Promise<boolean>((resolve) => {
      giveUp = () => { resolve(false); };
      timer = setTimeout(giveUp, milliseconds);
      callerGone.addEventListener("abort", giveUp);
    }),
  ]);
  clearTimeout(timer);
  callerGone.removeEventListener("abort", giveUp);
  callerGone.throwIfAborted();
  return isTimely;
}

/** So many pieces of work at a time; 0: no limit. */
export class Semaphore {
  private running = 0;
  private readonly waiting: (() => void)[] = [];

  constructor(private readonly limit: number) {}

  async run<T>(call: Call, work: () => Promise<T>): Promise<T> {
    if (this.limit > 0 && this.running >= this.limit) await new Promise<void>((resolve) => this.waiting.push(resolve));
    else this.running++;
    try {
      call.check();
      return await work();
    } finally {
      // A call that waits takes the place over.
      const next = this.waiting.shift();
      if (next) next();
      else this.running--;
    }
  }
}
