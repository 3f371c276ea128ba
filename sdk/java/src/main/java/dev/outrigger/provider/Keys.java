package dev.outrigger.provider;

import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;

/**
 * Limits changes: one at a time for each key, and in all as many as the provider declares. A lock outlives a call whose
 * caller is gone, until its work has ended.
 */
final class Keys {
  private final Duration patience;
  private final Duration retryAfter;
  private final Semaphore slots;
  private final Map<String, Lock> locks = new ConcurrentHashMap<>();

  /** A lock, which goes with its last user. */
  private record Lock(Semaphore semaphore, int users) {
    Lock used(int more) {
      return users + more == 0 ? null : new Lock(semaphore, users + more);
    }
  }

  /** Released by the thread that holds it. */
  interface Held extends AutoCloseable {
    @Override
    void close();
  }

  /**
   * Limits.
   *
   * @param patience how long a call waits for another one of its key, before it is refused
   * @param retryAfter when a refused call is repeated; null: by the controller's default
   * @param maxInFlight 0: any number
   */
  Keys(Duration patience, Duration retryAfter, int maxInFlight) {
    this.patience = patience;
    this.retryAfter = retryAfter;
    this.slots = maxInFlight == 0 ? null : new Semaphore(maxInFlight, true);
  }

  /** Holds a key, in the order of arrival. */
  Held key(Call call, String key) throws InterruptedException {
    Lock lock = locks.compute(key, (name, found) -> found == null ? new Lock(new Semaphore(1, true), 1) : found.used(1));
    boolean isHeld = false;
    try {
      isHeld = lock.semaphore.tryAcquire(patience.toNanos(), TimeUnit.NANOSECONDS);
      if (!isHeld) {
        throw new ProviderException(Reason.OPERATION_IN_PROGRESS, "another call about " + key + " is running")
            .retryAfter(retryAfter);
      }
      call.check();
      return () -> release(key, lock);
    } catch (InterruptedException | RuntimeException error) {
      if (isHeld) {
        release(key, lock);
      } else {
        leave(key);
      }
      throw error;
    }
  }

  private void release(String key, Lock lock) {
    lock.semaphore.release();
    leave(key);
  }

  private void leave(String key) {
    locks.computeIfPresent(key, (name, lock) -> lock.used(-1));
  }

  /**
   * Holds one of the places of {@code max_in_flight}. The controller keeps to that limit too, but a handler outlives a
   * call whose caller is gone.
   */
  Held slot(Call call) throws InterruptedException {
    if (slots == null) {
      return () -> {};
    }
    slots.acquire();
    try {
      call.check();
    } catch (CallerGoneException error) {
      slots.release();
      throw error;
    }
    return slots::release;
  }
}
