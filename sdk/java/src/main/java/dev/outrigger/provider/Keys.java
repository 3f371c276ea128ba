package dev.outrigger.provider;

import dev.outrigger.cloudprovider.v1.ErrorReason;
import java.time.Duration;
import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.Callable;

/**
 * Limits changes: one at a time for each key, and in all as many as the provider declares. The controller keeps to both,
 * but work outlives a call whose caller is gone, and holds its key and its place until it has ended.
 */
final class Keys {
  /** How long a call waits for another one of its key; the controller repeats it a second later. */
  private static final Duration PATIENCE = Duration.ofSeconds(10);

  private final Set<String> running = new HashSet<>();
  private final int most;

  /** No limit in all where {@code maxInFlight} is 0. */
  Keys(int maxInFlight) {
    this.most = maxInFlight == 0 ? Integer.MAX_VALUE : maxInFlight;
  }

  /** Does the work once no other call has the key. */
  <T> T run(Call call, String key, Callable<T> work) throws Exception {
    take(call, key);
    try {
      return work.call();
    } finally {
      release(key);
    }
  }

  private synchronized void take(Call call, String key) throws InterruptedException {
    long until = System.nanoTime() + PATIENCE.toNanos();
    while (running.contains(key) || running.size() >= most) {
      if (running.contains(key) && System.nanoTime() - until > 0) {
        throw new ProviderException(ErrorReason.ERROR_REASON_OPERATION_IN_PROGRESS, "another call about " + key + " is running")
            .retryAfter(Duration.ofSeconds(1));
      }
      // A change is not interrupted when its caller goes away.
      wait(200);
      call.check();
    }
    running.add(key);
  }

  private synchronized void release(String key) {
    running.remove(key);
    notifyAll();
  }
}
