package dev.outrigger.provider;

import com.google.protobuf.Message;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Deque;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.BiConsumer;
import java.util.function.Function;

/** Works on the items of a batch one by one, with a deadline and with errors that concern all of them. */
final class Each<I extends Message, O extends Message> {
  /** The time before its deadline that a batch of lookups is answered, at most: enough to send the answer. */
  private static final Duration ANSWER_MARGIN = Duration.ofSeconds(1);

  private final Call call;
  private final List<I> items;
  private final Function<I, String> key;
  private final Work<I, O> work;
  private final BiConsumer<I, Outcome<O>> done;
  private final Deque<I> pending;
  private final Map<String, Outcome<O>> outcomes = new LinkedHashMap<>();
  private ProviderException stop;
  private int workers;
  private boolean isOver;

  /** The work on one item; an exception of it concerns its item only. */
  @FunctionalInterface
  interface Work<I, O extends Message> {
    /** The outcome. */
    Outcome<O> on(I item) throws Exception;
  }

  private Each(Call call, List<I> items, Function<I, String> key, Work<I, O> work, BiConsumer<I, Outcome<O>> done) {
    this.call = call;
    this.items = items;
    this.key = key;
    this.work = work;
    this.done = done;
    // The order changes from call to call, so that no item is always behind those that hang.
    List<I> shuffled = new ArrayList<>(items);
    Collections.shuffle(shuffled);
    this.pending = new ArrayDeque<>(shuffled);
  }

  /**
   * The outcome of each item by its key.
   *
   * <p>At most {@code concurrency} items are worked on at a time. Once the cloud limits the rate, refuses the
   * credentials or is away, items that were not begun get that error too; once the caller is gone, no other item is
   * begun. Shortly before the deadline of a lookup the outcomes that are there are returned, and an error for each
   * other item.
   */
  static <I extends Message, O extends Message> Map<String, Outcome<O>> of(
      Call call, List<I> items, Function<I, String> key, int concurrency, Work<I, O> work) throws InterruptedException {
    return of(call, items, key, concurrency, work, (item, outcome) -> {});
  }

  /** Likewise; {@code done} gets each outcome when it is there. */
  static <I extends Message, O extends Message> Map<String, Outcome<O>> of(
      Call call, List<I> items, Function<I, String> key, int concurrency, Work<I, O> work, BiConsumer<I, Outcome<O>> done)
      throws InterruptedException {
    return new Each<>(call, items, key, work, done).run(concurrency);
  }

  private synchronized Map<String, Outcome<O>> run(int concurrency) throws InterruptedException {
    for (; workers < Math.min(Math.max(concurrency, 1), items.size()); workers++) {
      call.fork(this::workOn);
    }
    Duration remaining = call.remaining();
    Duration tenth = remaining.dividedBy(10);
    long until = System.nanoTime()
        + remaining.minus(tenth.compareTo(ANSWER_MARGIN) < 0 ? tenth : ANSWER_MARGIN).toNanos();
    while (workers > 0) {
      if (call.changesCloud()) {
        wait();
        continue;
      }
      long left = until - System.nanoTime();
      if (left <= 0) {
        break;
      }
      wait(Math.max(left / 1_000_000, 1));
    }
    isOver = true;
    if (stop != null) {
      // Effects stay with the first.
      ProviderException again = stop.withoutEffects();
      for (I item = pending.poll(); item != null; item = pending.poll()) {
        note(item, Outcome.failed(again));
      }
    }
    for (I item : items) {
      if (!outcomes.containsKey(key.apply(item))) {
        String text = pending.contains(item)
            ? "not asked about, other objects took the time" : "the cloud has not answered";
        note(item, Outcome.failed(new Statuses.NotAnsweredException(text)));
      }
    }
    return outcomes;
  }

  private void note(I item, Outcome<O> outcome) {
    outcomes.put(key.apply(item), outcome);
    done.accept(item, outcome);
  }

  private void workOn() {
    try {
      for (I item = next(); item != null; item = next()) {
        Outcome<O> outcome;
        try {
          outcome = work.on(item);
        } catch (Exception error) {
          outcome = Outcome.failed(error);
        }
        ended(item, outcome);
      }
    } finally {
      synchronized (this) {
        workers--;
        notifyAll();
      }
    }
  }

  private synchronized I next() {
    return stop != null || isOver || call.isGone() ? null : pending.poll();
  }

  private synchronized void ended(I item, Outcome<O> outcome) {
    if (isOver) {
      return;
    }
    note(item, outcome);
    if (outcome instanceof Outcome.Failed<O> failed && failed.error() instanceof ProviderException error
        && error.reason().stopsTheClass()) {
      stop = error;
    }
  }
}
