package dev.outrigger.provider;

import dev.outrigger.cloudprovider.v1.Instance;
import dev.outrigger.cloudprovider.v1.InstancesCapability;
import dev.outrigger.cloudprovider.v1.Node;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/**
 * Looks up the machines behind Nodes: the author writes {@link #getInstance}, or {@link #getInstances} where one call
 * of the cloud answers many; {@link #listInstances} is optional. Nothing here changes the cloud. Each method runs in a
 * thread that is interrupted once the caller no longer waits.
 */
public interface Instances {
  /** Facts that the methods do not show; the server fills in {@code list}. */
  default InstancesCapability capability() {
    return InstancesCapability.getDefaultInstance();
  }

  /** How many {@link #getInstance} run at a time for one batch. */
  default int concurrency() {
    return 8;
  }

  /**
   * The instance of a Node: by provider ID, and only where that is empty by name, system UUID or labels.
   * {@link Outcome#absent()} lets the controller delete the Node.
   */
  default Outcome<Instance> getInstance(Call call, Node node, Query query) throws Exception {
    throw new UnsupportedOperationException("getInstance");
  }

  /**
   * The outcome of each of 1 to {@code max_batch_size} nodes, by its name. An exception is the error of the whole call,
   * and so of each.
   */
  default Map<String, Outcome<Instance>> getInstances(Call call, List<Node> nodes, Query query) throws Exception {
    throw new UnsupportedOperationException("getInstances");
  }

  /** Every instance that can be a node of this cluster; an exception, of the stream too, discards the list. */
  default Stream<Instance> listInstances(Call call, Query query) throws Exception {
    throw new UnsupportedOperationException("listInstances");
  }
}
