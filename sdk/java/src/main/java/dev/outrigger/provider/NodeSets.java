package dev.outrigger.provider;

import dev.outrigger.cloudprovider.v1.Node;
import dev.outrigger.cloudprovider.v1.NodeSetBegin;
import dev.outrigger.cloudprovider.v1.NodeSetCommit;
import dev.outrigger.cloudprovider.v1.NodeTargets;
import dev.outrigger.cloudprovider.v1.SyncNodeSetRequest;
import dev.outrigger.cloudprovider.v1.SyncNodeSetResponse;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** Keeps the node sets that the controller uploads: one set, and its latest revisions. */
final class NodeSets {
  // Calls under way still name the revision before the latest.
  private static final int MOST_REVISIONS = 2;

  private String setId = "";
  // The latest comes last.
  private final Map<String, Targets> revisions = new LinkedHashMap<>();

  private synchronized Targets held(String id, String revision) {
    return id.equals(setId) ? revisions.get(revision) : null;
  }

  /** The nodes that a call names or brings along. A later upload does not change them. */
  Targets resolve(NodeTargets targets) {
    if (targets.hasInline()) {
      return new Targets(targets.getInline().getNodesList());
    }
    if (!targets.hasRef()) {
      throw new ProviderException(Reason.INVALID_REQUEST,
          "the request has no targets; name a node set or send nodes inline, empty ones for no targets");
    }
    String id = targets.getRef().getSetId();
    String revision = targets.getRef().getRevision();
    Targets nodes = held(id, revision);
    if (nodes == null) {
      throw new ProviderException(Reason.NODE_SET_UNKNOWN, "revision \"" + revision + "\" of node set \"" + id
          + "\" is not held here; sync a snapshot and call again");
    }
    return nodes;
  }

  /** Begins an upload. */
  Upload begin(NodeSetBegin begin) {
    Targets base = begin.getBaseRevision().isEmpty()
        ? new Targets(List.of()) : held(begin.getSetId(), begin.getBaseRevision());
    if (base == null) {
      throw new ProviderException(Reason.NODE_SET_BASE_MISMATCH, "revision \"" + begin.getBaseRevision()
          + "\" of node set \"" + begin.getSetId() + "\", which the upload changes, is not held; sync a snapshot");
    }
    return new Upload(begin, base);
  }

  /** An upload under way: it is applied as a whole, or nothing of it. */
  final class Upload {
    private final NodeSetBegin begin;
    private final Targets base;
    private final Map<String, Optional<Node>> changes = new LinkedHashMap<>();

    private Upload(NodeSetBegin begin, Targets base) {
      this.begin = begin;
      this.base = base;
    }

    /** Takes a message; the answer once it commits, and null before. */
    SyncNodeSetResponse take(SyncNodeSetRequest part) {
      if (part.hasCommit()) {
        return commit(part.getCommit());
      }
      if (!part.hasChunk()) {
        throw invalid("the upload has a message that is neither chunk nor commit");
      }
      part.getChunk().getUpsertsList().forEach(node -> change(node.getName(), Optional.of(node)));
      for (String name : part.getChunk().getRemovalsList()) {
        if (base.named(name).isEmpty()) {
          throw invalid("the upload removes node \"" + name + "\", which its base does not have");
        }
        change(name, Optional.empty());
      }
      return null;
    }

    private void change(String name, Optional<Node> node) {
      if (changes.put(name, node) != null) {
        throw invalid("the upload has node \"" + name + "\" twice");
      }
    }

    private SyncNodeSetResponse commit(NodeSetCommit commit) {
      List<Node> nodes = new ArrayList<>();
      base.stream().filter(node -> !changes.containsKey(node.getName())).forEach(nodes::add);
      changes.values().forEach(node -> node.ifPresent(nodes::add));
      if (commit.getChangeCount() != changes.size() || begin.getNodeCount() != nodes.size()) {
        throw invalid("commit.change_count is " + commit.getChangeCount() + " and begin.node_count " + begin.getNodeCount()
            + ", but the upload makes them " + changes.size() + " and " + nodes.size() + "; nothing was applied");
      }
      hold(begin.getSetId(), begin.getRevision(), new Targets(nodes, begin.getRevision()));
      return SyncNodeSetResponse.newBuilder().setRevision(begin.getRevision()).build();
    }
  }

  private synchronized void hold(String id, String revision, Targets nodes) {
    if (!id.equals(setId)) {
      setId = id;
      revisions.clear();
    }
    revisions.remove(revision);
    revisions.put(revision, nodes);
    if (revisions.size() > MOST_REVISIONS) {
      revisions.remove(revisions.keySet().iterator().next());
    }
  }

  private static ProviderException invalid(String text) {
    return new ProviderException(Reason.INVALID_REQUEST, text);
  }
}
