"""The backend nodes of a load balancer."""

from collections.abc import Iterable, Iterator

from . import v1


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
