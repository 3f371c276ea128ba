package dev.outrigger.provider;

import dev.outrigger.cloudprovider.v1.Node;
import dev.outrigger.cloudprovider.v1.NodeAddress;
import java.util.Comparator;
import java.util.List;

/**
 * The backend nodes of a load balancer, by name.
 *
 * <p>Labels, annotations, taints, ready and unschedulable are some seconds old. A change of one of them leads to no
 * call, so choose no target by them.
 *
 * @param nodes ordered by name
 * @param revision that of the node set, and empty where the nodes came with the call
 */
public record Targets(List<Node> nodes, String revision) {
  /** Puts the nodes into their order. */
  public Targets {
    nodes = nodes.stream().sorted(Comparator.comparing(Node::getName)).toList();
  }

  /** All addresses of type InternalIP, sorted. */
  public List<String> addresses() {
    return nodes.stream().flatMap(node -> node.getAddressesList().stream())
        .filter(address -> address.getType().equals("InternalIP")).map(NodeAddress::getAddress).sorted().toList();
  }
}
