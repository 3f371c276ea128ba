"""Backend nodes, synced once and named by their revision in the calls about load balancers."""

from collections.abc import AsyncIterator

from cloudprovider.v1 import node_sets_pb2 as pb
from cloudprovider.v1.common_pb2 import Node
from cloudprovider.v1.node_sets_pb2_grpc import NodeSetsServiceServicer

from .calls import Context, Gate
from .errors import Refusal

MOST_SETS = 16
MOST_REVISIONS = 2


class NodeSets(NodeSetsServiceServicer):
    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        # By set and revision, the latest last. A revision is replaced, never changed in place:
        # calls in flight keep the nodes that they resolved.
        self.sets: dict[str, dict[str, dict[str, Node]]] = {}

    def resolve(self, targets: pb.NodeTargets) -> list[Node]:
        ref = targets.ref
        if targets.HasField("inline"):
            return list(targets.inline.nodes)
        if not targets.HasField("ref"):
            raise Refusal("INVALID_REQUEST", "no targets: neither a reference nor nodes")
        if ref.revision not in self.sets.get(ref.set_id, {}):
            raise Refusal("NODE_SET_UNKNOWN", f"revision {ref.revision!r} of {ref.set_id!r} is not held")
        return list(self.sets[ref.set_id][ref.revision].values())

    async def SyncNodeSet(
        self, request_iterator: AsyncIterator[pb.SyncNodeSetRequest], context: Context
    ) -> pb.SyncNodeSetResponse:
        begin = (await anext(request_iterator, pb.SyncNodeSetRequest())).begin
        if not begin.set_id or not begin.revision:
            raise Refusal("INVALID_REQUEST", "an upload starts with a begin that has set_id and revision")
        self.gate.admit(begin.context)
        held = self.sets.get(begin.set_id, {})
        # An upload that is sent again may find its own result in place of its base.
        base = begin.base_revision if begin.base_revision in held else begin.revision
        if begin.base_revision and base not in held:
            raise Refusal("NODE_SET_BASE_MISMATCH", f"revision {begin.base_revision!r} is not held")
        nodes = dict(held[base]) if begin.base_revision else {}
        changed: list[str] = []
        async for request in request_iterator:
            if request.HasField("commit"):
                counted = (len(nodes), len(changed), len(set(changed)))
                named = (begin.node_count, request.commit.change_count, request.commit.change_count)
                if counted != named:
                    raise Refusal("INVALID_REQUEST", f"counts of the upload: {counted} and not {named}")
                self._store(begin, nodes)
                return pb.SyncNodeSetResponse(revision=begin.revision)
            if not request.HasField("chunk"):
                raise Refusal("INVALID_REQUEST", "a part of the upload is neither chunk nor commit")
            for name in request.chunk.removals:
                if nodes.pop(name, None) is None and base != begin.revision:
                    raise Refusal("INVALID_REQUEST", f"node {name!r} is removed but not there")
            nodes |= {node.name: node for node in request.chunk.upserts}
            changed += [*request.chunk.removals, *(node.name for node in request.chunk.upserts)]
        # A cancelled upload can look like this too.
        raise Refusal("INVALID_REQUEST", "the upload ended without commit; nothing was applied")

    def _store(self, begin: pb.NodeSetBegin, nodes: dict[str, Node]) -> None:
        revisions = self.sets.pop(begin.set_id, {})
        revisions.pop(begin.revision, None)
        revisions[begin.revision] = nodes
        self.sets[begin.set_id] = dict(list(revisions.items())[-MOST_REVISIONS:])
        self.sets = dict(list(self.sets.items())[-MOST_SETS:])
