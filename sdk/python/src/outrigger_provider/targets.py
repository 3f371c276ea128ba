"""The backend nodes of a load balancer."""

from collections.abc import Iterable, Sequence
from typing import overload

from . import v1


class Targets(Sequence[v1.Node]):
    """Nodes by name, each name once. They are shared by all calls that name the same revision: change none.

    Labels, annotations, taints, ready and unschedulable are as they were at the call. A change of one of them leads to
    no call, so choose no target by them. Equal revisions have equal names, provider IDs, addresses and Pod CIDRs; the
    revision is empty where the nodes came with the call.
    """

    def __init__(self, nodes: Iterable[v1.Node] = (), revision: str = "") -> None:
        self.revision = revision
        self._by_name: dict[str, v1.Node] = {}
        for node in sorted(nodes, key=lambda node: node.name):
            self._by_name.setdefault(node.name, node)
        self._nodes = tuple(self._by_name.values())

    def get(self, name: str) -> v1.Node | None:
        """The node of this name."""
        return self._by_name.get(name)

    def addresses(self, kind: str = "InternalIP") -> list[str]:
        """All addresses of a type, sorted."""
        return sorted(each.address for node in self._nodes for each in node.addresses if each.type == kind)

    @overload
    def __getitem__(self, index: int) -> v1.Node: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[v1.Node]: ...
    def __getitem__(self, index: int | slice) -> v1.Node | Sequence[v1.Node]:
        return self._nodes[index]

    def __len__(self) -> int:
        return len(self._nodes)
