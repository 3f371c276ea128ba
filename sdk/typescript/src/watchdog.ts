/** Tells who blocks the event loop: nothing is answered meanwhile, and the controller takes the provider for dead. */
import type { Core } from "./core.js";
import { log } from "./logging.js";

const INTERVAL_MS = 100;
/** GetStatus is to be answered within 100 ms. A busy machine alone delays a process by less than this. */
const THRESHOLD_MS = 1_000;

/** Watches until what is returned is called. */
export function watchEventLoop(core: Core): () => void {
  let last = performance.now();
  const timer = setInterval(() => {
    const now = performance.now();
    const blocked = Math.round(now - last - INTERVAL_MS);
    last = now;
    const handlers = core.recentHandlers();
    if (blocked < THRESHOLD_MS) return;
    log.warn("the event loop was blocked, and no call was answered meanwhile: one of these handlers computes or waits without await",
      { blocked_ms: blocked, handlers });
  }, INTERVAL_MS).unref();
  return () => { clearInterval(timer); };
}
