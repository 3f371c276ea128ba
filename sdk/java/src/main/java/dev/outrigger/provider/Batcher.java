package dev.outrigger.provider;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.*;

/**
 * Shares one call of a cloud that takes, or answers, many items by one. Callers that wait together share a call that
 * begins after each of them has come; one call runs at a time.
 *
 * <pre>{@code
 * private final Batcher<Route, Route> creations = new Batcher<>(50, cloud::createRoutes);
 *
 * public CreateRouteResponse createRoute(Call call, Route route) throws Exception {
 *   call.check();
 *   return CreateRouteResponse.newBuilder().setFound(creations.call(route)).build();
 * }
 * }</pre>
 *
 * @param <I> the item of a caller
 * @param <R> its result
 */
public final class Batcher<I, R> {
  private final int most;
  private final Work<I, R> work;
  private final BlockingQueue<Waiting<I, R>> waiting = new LinkedBlockingQueue<>();
  // Apart from the callers, since the thread of one of them may be interrupted.
  private final ExecutorService thread = Executors.newSingleThreadExecutor(Core::daemon);

  private record Waiting<I, R>(I item, CompletableFuture<R> result) {}

  /** A call of the cloud about many items. */
  @FunctionalInterface
  public interface Work<I, R> {
    /** A result for each item, in their order. An exception is thrown to each caller. */
    List<R> on(List<I> items) throws Exception;
  }

  /** At most {@code most} items go into one call. */
  public Batcher(int most, Work<I, R> work) {
    this.most = most;
    this.work = work;
  }

  /** The result for this item. */
  public R call(I item) throws Exception {
    CompletableFuture<R> result = new CompletableFuture<>();
    waiting.add(new Waiting<>(item, result));
    thread.execute(this::run);
    try {
      return result.get();
    } catch (ExecutionException error) {
      throw error.getCause() instanceof Exception cause ? cause : error;
    }
  }

  private void run() {
    List<Waiting<I, R>> callers = new ArrayList<>();
    if (waiting.drainTo(callers, most) == 0) {
      return;
    }
    try {
      List<R> results = work.on(callers.stream().map(Waiting::item).toList());
      for (int i = 0; i < callers.size(); i++) {
        callers.get(i).result().complete(results.get(i));
      }
    } catch (Throwable error) {
      // A caller that has its result keeps it.
      callers.forEach(caller -> caller.result().completeExceptionally(error));
    }
  }
}
