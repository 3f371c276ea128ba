"""Keeps the node set that the controller uploads."""

from collections.abc import Sequence

from . import v1
from .call import Call
from .errors import Error, Reason
from .targets import Targets

# Calls under way still name the revision before the latest.
MOST_REVISIONS = 2


class NodeSets:
    """Serves NodeSetsService: holds the latest revisions of the set; the latest comes last."""

    def __init__(self) -> None:
        self.revisions: dict[str, Targets] = {}

    def resolve(self, targets: v1.NodeTargets) -> Targets:
        """The nodes that a call names or brings along."""
        if targets.HasField("inline"):
            return Targets(targets.inline.nodes)
        if not targets.HasField("ref"):
            text = "the request has no targets; name a revision or send nodes inline, empty ones for no targets"
            raise Error(Reason.INVALID_REQUEST, text)
        ref = targets.ref
        held = self.revisions.get(ref.revision)
        if held is None:
            raise Error(Reason.NODE_SET_UNKNOWN, f"revision {ref.revision!r} of the node set is not held here")
        if not ref.HasField("only"):
            return held
        nodes = [held.get(name) for name in ref.only.names]
        if None in nodes:
            raise Error(Reason.NODE_SET_UNKNOWN, f"revision {ref.revision!r} lacks a node that the call names")
        return Targets(node for node in nodes if node is not None)

    async def SyncNodeSet(self, call: Call, parts: Sequence[v1.SyncNodeSetRequest]) -> v1.SyncNodeSetResponse:
        """Applies an upload as a whole, or nothing of it."""
        last = parts[-1]
        if not last.complete or not last.revision:
            # A cancelled upload looks like this too.
            raise Error(Reason.INVALID_REQUEST, "the upload ended without complete and a revision")
        nodes = {node.name: node for part in parts for node in part.nodes}
        if not last.node_count == len(nodes) == sum(len(part.nodes) for part in parts):
            text = f"node_count is {last.node_count}, and the upload has {len(nodes)} names, or one of them twice"
            raise Error(Reason.INVALID_REQUEST, text)
        self.revisions.pop(last.revision, None)
        self.revisions[last.revision] = Targets(nodes.values(), last.revision)
        while len(self.revisions) > MOST_REVISIONS:
            del self.revisions[next(iter(self.revisions))]
        return v1.SyncNodeSetResponse(revision=last.revision)
