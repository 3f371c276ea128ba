"""Keeps the node sets that the controller uploads."""

from collections.abc import AsyncIterator

from . import v1
from .errors import Error, Reason
from .targets import Targets

# Calls under way still name the revision before the latest.
MOST_REVISIONS = 2


class NodeSets:
    """One set, and its latest revisions; the latest comes last."""

    def __init__(self) -> None:
        self.set_id = ""
        self.revisions: dict[str, Targets] = {}

    def held(self, set_id: str, revision: str) -> Targets | None:
        """The nodes of a revision."""
        return self.revisions.get(revision) if set_id == self.set_id else None

    def resolve(self, targets: v1.NodeTargets) -> Targets:
        """The nodes that a call names or brings along."""
        if targets.HasField("inline"):
            return Targets(targets.inline.nodes)
        if not targets.HasField("ref"):
            text = "the request has no targets; name a node set or send nodes inline, empty ones for no targets"
            raise Error(Reason.INVALID_REQUEST, text)
        nodes = self.held(targets.ref.set_id, targets.ref.revision)
        if nodes is None:
            text = f"revision {targets.ref.revision!r} of node set {targets.ref.set_id!r} is not held here"
            raise Error(Reason.NODE_SET_UNKNOWN, f"{text}; sync a snapshot and call again")
        return nodes

    async def upload(self, begin: v1.NodeSetBegin, parts: AsyncIterator[v1.SyncNodeSetRequest]) -> str:
        """Applies an upload as a whole, or nothing of it."""
        base: Targets | None = Targets()
        if begin.base_revision and (base := self.held(begin.set_id, begin.base_revision)) is None:
            text = (
                f"revision {begin.base_revision!r} of node set {begin.set_id!r}, which the upload changes, is not held"
            )
            raise Error(Reason.NODE_SET_BASE_MISMATCH, f"{text}; sync a snapshot")
        assert base is not None  # noqa: S101
        changes: dict[str, v1.Node | None] = {}

        def change(name: str, node: v1.Node | None) -> None:
            if name in changes:
                raise Error(Reason.INVALID_REQUEST, f"the upload has node {name!r} twice")
            changes[name] = node

        async for part in parts:
            if part.HasField("commit"):
                return self._commit(begin, part.commit, base, changes)
            if not part.HasField("chunk"):
                raise Error(Reason.INVALID_REQUEST, "the upload has a message that is neither chunk nor commit")
            for node in part.chunk.upserts:
                change(node.name, node)
            for name in part.chunk.removals:
                if base.get(name) is None:
                    raise Error(
                        Reason.INVALID_REQUEST, f"the upload removes node {name!r}, which its base does not have"
                    )
                change(name, None)
        # A cancelled upload looks like this too.
        raise Error(Reason.INVALID_REQUEST, "the upload ended without commit; nothing was applied")

    def _commit(
        self, begin: v1.NodeSetBegin, commit: v1.NodeSetCommit, base: Targets, changes: dict[str, v1.Node | None]
    ) -> str:
        nodes = [node for node in base if node.name not in changes]
        nodes += [node for node in changes.values() if node is not None]
        if (commit.change_count, begin.node_count) != (len(changes), len(nodes)):
            counts = f"commit.change_count is {commit.change_count} and begin.node_count {begin.node_count}"
            text = f"{counts}, but the upload makes them {len(changes)} and {len(nodes)}; nothing was applied"
            raise Error(Reason.INVALID_REQUEST, text)
        if begin.set_id != self.set_id:
            self.set_id, self.revisions = begin.set_id, {}
        self.revisions.pop(begin.revision, None)
        self.revisions[begin.revision] = Targets(nodes, begin.revision)
        while len(self.revisions) > MOST_REVISIONS:
            del self.revisions[next(iter(self.revisions))]
        return begin.revision


class NodeSetsRpc:
    """Serves NodeSetsService."""

    def __init__(self, node_sets: NodeSets) -> None:
        self.node_sets = node_sets

    async def SyncNodeSet(
        self, begin: v1.NodeSetBegin, parts: AsyncIterator[v1.SyncNodeSetRequest]
    ) -> v1.SyncNodeSetResponse:
        """Takes an upload, whose first part was read already."""
        return v1.SyncNodeSetResponse(revision=await self.node_sets.upload(begin, parts))
