package dev.outrigger.provider;

import dev.outrigger.cloudprovider.v1.*;
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

  /**
   * The instance of a Node: by provider ID, and only where that is empty by name, system UUID or labels. 8 of a batch run
   * at a time; an exception is the error of its Node. {@link Lookup#absent()} lets the controller delete the Node.
   */
  default InstanceResult getInstance(Call call, Node node, Query query) throws Exception {
    throw ProviderException.notServed("getInstance");
  }

  /**
   * The answer about each of 1 to {@code max_batch_size} nodes, by its name. An exception is the error of the whole call,
   * and so of each.
   */
  default Map<String, InstanceResult> getInstances(Call call, List<Node> nodes, Query query) throws Exception {
    return InstancesRpc.each(this, call, nodes, query);
  }

  /** Every instance that can be a node of this cluster; an exception, of the stream too, discards the list. */
  default Stream<Instance> listInstances(Call call, Query query) throws Exception {
    throw ProviderException.notServed("listInstances");
  }
}
