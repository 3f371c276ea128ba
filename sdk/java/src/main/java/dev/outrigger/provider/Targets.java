package dev.outrigger.provider;

import dev.outrigger.cloudprovider.v1.Node;
import dev.outrigger.cloudprovider.v1.NodeAddress;
import java.util.AbstractList;
import java.util.Collection;
import java.util.List;
import java.util.Optional;
import java.util.TreeMap;

/**
 * The backend nodes of a load balancer, by name, each name once.
 *
 * <p>Labels, annotations, taints, ready and unschedulable are as they were at the call. A change of one of them leads
 * to no call, so choose no target by them. Equal revisions have equal names, provider IDs, addresses and Pod CIDRs; the
 * revision is empty where the nodes came with the call.
 */
public final class Targets extends AbstractList<Node> {
  private final String revision;
  private final TreeMap<String, Node> byName = new TreeMap<>();
  private final List<Node> nodes;

  /** Targets without a revision, as they come with a call. */
  public Targets(Collection<Node> nodes) {
    this(nodes, "");
  }

  Targets(Collection<Node> nodes, String revision) {
    this.revision = revision;
    nodes.forEach(node -> byName.putIfAbsent(node.getName(), node));
    this.nodes = List.copyOf(byName.values());
  }

  /** Which state of the node set these are. */
  public String revision() {
    return revision;
  }

  /** The node of this name. */
  public Optional<Node> named(String name) {
    return Optional.ofNullable(byName.get(name));
  }

  /** All addresses of type InternalIP, sorted. */
  public List<String> addresses() {
    return addresses("InternalIP");
  }

  /** All addresses of a type, sorted. */
  public List<String> addresses(String type) {
    return nodes.stream().flatMap(node -> node.getAddressesList().stream())
        .filter(address -> address.getType().equals(type)).map(NodeAddress::getAddress).sorted().toList();
  }

  @Override
  public Node get(int index) {
    return nodes.get(index);
  }

  @Override
  public int size() {
    return nodes.size();
  }
}
