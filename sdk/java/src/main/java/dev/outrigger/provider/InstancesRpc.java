package dev.outrigger.provider;

import dev.outrigger.cloudprovider.v1.*;
import io.grpc.Context;
import io.grpc.ServerServiceDefinition;
import java.util.*;
import java.util.concurrent.*;

/** Serves InstancesService. */
final class InstancesRpc {
  /** The time before its deadline that a batch is answered, at most: enough to send the answer. */
  private static final long ANSWER_MARGIN_MILLIS = 1000;
  private static final int CONCURRENCY = 8;

  static ServerServiceDefinition of(Core core, Instances author) {
    return new Methods(core, InstancesServiceGrpc.SERVICE_NAME)
        .unary(InstancesServiceGrpc.getBatchGetInstancesMethod(), (call, request) -> {
          Query query = Query.of(request.getView(), request.getMaxStaleness());
          BatchGetInstancesResponse.Builder answer = BatchGetInstancesResponse.newBuilder();
          author.getInstances(call, request.getItemsList(), query)
              .forEach((name, result) -> answer.addResults(result.toBuilder().setKey(name)));
          return answer.build();
        })
        .list(InstancesServiceGrpc.getListInstancesMethod(), (call, request) ->
            author.listInstances(call, Query.of(request.getView(), request.getMaxStaleness())))
        .build();
  }

  /**
   * Looks up each node by itself. Once the cloud limits the rate, refuses the credentials or is away, nodes that were not
   * begun yet get that error too. Shortly before the deadline the answers that are there are returned, and an error for
   * each other node. The order changes from call to call, so that no node is always behind those that hang.
   */
  static Map<String, InstanceResult> each(Instances author, Call call, List<Node> nodes, Query query) throws InterruptedException {
    List<Node> order = new ArrayList<>(nodes);
    Collections.shuffle(order);
    InstanceResult late = Lookup.failed(call, new TimeoutException());
    Map<String, InstanceResult> results = new ConcurrentHashMap<>();
    ExecutorService threads = Executors.newFixedThreadPool(CONCURRENCY, Core::daemon);
    for (Node node : order) {
      results.put(node.getName(), late);
      threads.execute(Context.current().wrap(() -> {
        try {
          ProviderException stop = call.cloudFailure;
          results.put(node.getName(), stop == null ? author.getInstance(call, node, query) : Lookup.failed(call, stop));
        } catch (Exception error) {
          results.put(node.getName(), Lookup.failed(call, error));
        }
      }));
    }
    threads.shutdown();
    try {
      long left = call.remaining().toMillis();
      threads.awaitTermination(left - Math.min(ANSWER_MARGIN_MILLIS, left / 10), TimeUnit.MILLISECONDS);
      return Map.copyOf(results);
    } finally {
      threads.shutdownNow();
    }
  }
}
