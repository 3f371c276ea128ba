"""Keeps the node set that the controller uploads, and has the targets that are made of it."""

from collections.abc import Iterable, Iterator, Sequence

from . import v1
from .call import Call
from .errors import Error, Reason

# Calls under way still name the revision before the latest.
MOST_REVISIONS = 2


class Targets:
    """Nodes in the order of their names, each name once. Calls that name the same revision share them: change none.

    Labels, annotations, taints, ready and unschedulable are as they were at the call. A change of one of them leads to
    no call, so choose no target by them. Equal revisions have equal names, provider IDs, addresses and Pod CIDRs; the
    revision is empty where the nodes came with the call, or are some of a revision.
    """

    def __init__(self, nodes: Iterable[v1.Node] = (), revision: str = "") -> None:
        self.revision = revision
        self._nodes = {node.name: node for node in sorted(nodes, key=lambda node: node.name)}

    def get(self, name: str) -> v1.Node | None:
        """The node of this name."""
        return self._nodes.get(name)

    def addresses(self, kind: str = "InternalIP") -> list[str]:
        """All addresses of a type, sorted."""
        return sorted(each.address for node in self for each in node.addresses if each.type == kind)

    def __iter__(self) -> Iterator[v1.Node]:
        return iter(self._nodes.values())

    def __len__(self) -> int:
        return len(self._nodes)


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
