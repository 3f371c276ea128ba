"""Backend nodes, synced once and named by their revision in the calls about load balancers."""

from collections.abc import AsyncIterator

from cloudprovider.v1 import node_sets_pb2 as pb
from cloudprovider.v1.common_pb2 import Node
from cloudprovider.v1.node_sets_pb2_grpc import NodeSetsServiceServicer

from .calls import Context, Gate
from .errors import Refusal

# Calls in flight may name the revision before the latest.
MOST_REVISIONS = 2


class NodeSets(NodeSetsServiceServicer):
    """Keeps the latest revisions of node sets."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        # By set and revision, the latest last.
        self.held: dict[tuple[str, str], list[Node]] = {}

    def resolve(self, targets: pb.NodeTargets) -> list[Node]:
        if targets.HasField("inline"):
            return list(targets.inline.nodes)
        if not targets.HasField("ref"):
            raise Refusal("INVALID_REQUEST", "no targets: neither a reference nor nodes")
        key = (targets.ref.set_id, targets.ref.revision)
        if key not in self.held:
            raise Refusal("NODE_SET_UNKNOWN", f"revision {key[1]!r} of {key[0]!r} is not held")
        return self.held[key]

    async def SyncNodeSet(
        self, request_iterator: AsyncIterator[pb.SyncNodeSetRequest], context: Context
    ) -> pb.SyncNodeSetResponse:
        begin = (await anext(request_iterator, pb.SyncNodeSetRequest())).begin
        if not begin.revision:
            raise Refusal("INVALID_REQUEST", "an upload starts with a begin that has a revision")
        self.gate.admit(begin.context)
        nodes: list[Node] = []
        async for request in request_iterator:
            if not request.HasField("commit"):
                nodes += request.chunk.upserts
                continue
            counts = {len({node.name for node in nodes}), len(nodes), begin.node_count, request.commit.change_count}
            if len(counts) > 1:
                raise Refusal("INVALID_REQUEST", f"the nodes of the upload and its counts are different: {counts}")
            key = (begin.set_id, begin.revision)
            self.held.pop(key, None)
            self.held = dict([*self.held.items(), (key, nodes)][-MOST_REVISIONS:])
            return pb.SyncNodeSetResponse(revision=begin.revision)
        # A cancelled upload can look like this too.
        raise Refusal("INVALID_REQUEST", "the upload ended without commit; nothing was applied")
