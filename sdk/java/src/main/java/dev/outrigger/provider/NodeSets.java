package dev.outrigger.provider;

import dev.outrigger.cloudprovider.v1.*;
import io.grpc.stub.StreamObserver;
import java.util.*;

/** Serves NodeSetsService: keeps the latest revisions of the node set that the controller uploads. */
final class NodeSets extends NodeSetsServiceGrpc.NodeSetsServiceImplBase {
  // Calls under way still name the revision before the latest.
  private static final int MOST_REVISIONS = 2;

  private final Core core;
  // Nodes by name. The latest revision comes last.
  private final Map<String, Map<String, Node>> revisions = new LinkedHashMap<>();

  NodeSets(Core core) {
    this.core = core;
  }

  /** The nodes that a call names or brings along. A later upload does not change them. */
  synchronized Targets resolve(NodeTargets targets) {
    if (targets.hasInline()) {
      return new Targets(targets.getInline().getNodesList(), "");
    }
    if (!targets.hasRef()) {
      throw ProviderException.invalid(
          "the request has no targets; name a revision or send nodes inline, an empty set for none");
    }
    String revision = targets.getRef().getRevision();
    Map<String, Node> all = revisions.get(revision);
    boolean isAll = !targets.getRef().hasOnly();
    List<String> names = targets.getRef().getOnly().getNamesList();
    if (all == null || !all.keySet().containsAll(names)) {
      throw new ProviderException(ErrorReason.ERROR_REASON_NODE_SET_UNKNOWN, "revision \"" + revision
          + "\" of the node set, or a node of it that is named, is not held here; sync the set and call again");
    }
    return new Targets(isAll ? List.copyOf(all.values()) : names.stream().map(all::get).toList(), revision);
  }

  private synchronized void hold(String revision, Map<String, Node> nodes) {
    revisions.remove(revision);
    revisions.put(revision, nodes);
    if (revisions.size() > MOST_REVISIONS) {
      revisions.remove(revisions.keySet().iterator().next());
    }
  }

  @Override
  public StreamObserver<SyncNodeSetRequest> syncNodeSet(StreamObserver<SyncNodeSetResponse> caller) {
    // An upload under way is applied as a whole, or nothing of it.
    return new StreamObserver<>() {
      private final Map<String, Node> nodes = new HashMap<>();
      private int count;
      private Call call;
      private boolean hasEnded;

      @Override
      public void onNext(SyncNodeSetRequest part) {
        if (hasEnded) {
          return;
        }
        try {
          call = call == null ? core.begin("SyncNodeSet", false, part.getContext(), LoadBalancerIdentity.getDefaultInstance()) : call;
        } catch (ProviderException error) {
          fail(error);
          return;
        }
        part.getNodesList().forEach(node -> nodes.put(node.getName(), node));
        count += part.getNodesCount();
        if (part.getComplete() && (part.getRevision().isEmpty() || count != part.getNodeCount() || count != nodes.size())) {
          fail(ProviderException.invalid("the upload of revision \"" + part.getRevision() + "\" has "
              + count + " nodes with " + nodes.size() + " names, and node_count is " + part.getNodeCount()));
        } else if (part.getComplete()) {
          hold(part.getRevision(), nodes);
          caller.onNext(SyncNodeSetResponse.newBuilder().setRevision(part.getRevision()).build());
          caller.onCompleted();
          onError(null);
        }
      }

      @Override
      public void onCompleted() {
        if (!hasEnded) {
          fail(ProviderException.invalid("the upload ended without complete; nothing was applied"));
        }
      }

      /** Cancelled, or answered. */
      @Override
      public void onError(Throwable error) {
        hasEnded = true;
        if (call != null) {
          core.end(call);
        }
      }

      private void fail(ProviderException error) {
        caller.onError(Core.thrown(error, "SyncNodeSet", call == null ? "" : call.requestId));
        onError(error);
      }
    };
  }
}
