/** Many callers, one call of the cloud. */

interface Waiting<I, R> {
  item: I;
  /** Settles when the caller no longer waits. */
  gone: Promise<unknown>;
  resolve: (result: R) => void;
  reject: (error: unknown) => void;
}

/**
 * Shares one call of a cloud that takes, or answers, many items by one. Callers that wait together share a call that begins
 * after each of them has come; one call runs at a time, about at most `most` items. `work` resolves with a result for each
 * item, in their order; where it throws, each of its callers gets the error.
 *
 * ```ts
 * const creations = new Batcher((routes: readonly v1.Route[]) => cloud.createRoutes(routes), 50);
 * const routes: Partial<Routes> = {
 *   createRoute: async (route, call) => {
 *     call.check();
 *     return { found: await creations.call(route, call.signal) };
 *   },
 * };
 * ```
 */
export class Batcher<I, R> {
  private readonly waiting: Waiting<I, R>[] = [];
  private isRunning = false;

  constructor(private readonly work: (items: readonly I[]) => Promise<readonly R[]>, private readonly most = 100) {}

  /** The result for this item. A call whose callers have all left, by their signals, keeps the next from beginning no longer. */
  call(item: I, signal?: AbortSignal): Promise<R> {
    return new Promise((resolve, reject) => {
      const gone = new Promise((leave) => { signal?.addEventListener("abort", leave); });
      this.waiting.push({ item, gone, resolve, reject });
      if (!this.isRunning) void this.run();
    });
  }

  private async run(): Promise<void> {
    this.isRunning = true;
    // Callers of the same turn of the event loop come first.
    await new Promise((resolve) => { setImmediate(resolve); });
    for (let callers = this.waiting.splice(0, this.most); callers.length > 0; callers = this.waiting.splice(0, this.most)) {
      try {
        const left = Promise.all(callers.map(({ gone }) => gone)).then(() => { throw new Error("all callers have left the shared call"); });
        const results = await Promise.race([this.work(callers.map(({ item }) => item)), left]);
        if (results.length !== callers.length) throw new Error(`${String(results.length)} results for ${String(callers.length)} items`);
        for (const [index, { resolve }] of callers.entries()) resolve(results[index] as R);
      } catch (error) {
        for (const { reject } of callers) reject(error);
      }
    }
    this.isRunning = false;
  }
}
