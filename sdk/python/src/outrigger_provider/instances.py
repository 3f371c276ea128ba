"""Looks up the machines behind Nodes: the methods that an author writes, and how InstancesService calls them."""

from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from . import v1
from .call import Call, implements
from .each import each
from .lists import Listed, pages
from .results import Lookup, Results


@dataclass(frozen=True)
class Query:
    """The options of a lookup."""

    # The parts of an instance that the controller reads; more may be filled. Never unspecified.
    view: int
    # How old an answer from the provider's own caches may be. Zero: ask the cloud now.
    max_staleness: timedelta


class Instances:
    """The author writes get_instance, or get_instances where one call of the cloud answers many; list_instances is
    optional. Each may be `async def`, or `def` to run in a thread. Nothing here changes the cloud."""

    # The server fills in `list`.
    capability = v1.InstancesCapability()
    # How many get_instance run at a time for one batch.
    concurrency = 8

    def get_instance(self, call: Call, node: v1.Node, query: Query) -> Lookup | Awaitable[Lookup]:
        """The instance of a Node: by provider ID, and only where that is empty by name, system UUID or labels.
        absent() lets the controller delete the Node."""
        raise NotImplementedError

    def get_instances(
        self, call: Call, nodes: Sequence[v1.Node], query: Query
    ) -> Mapping[str, Lookup] | Awaitable[Mapping[str, Lookup]]:
        """The outcome of each of 1 to max_batch_size nodes, by its name. An error of the whole call is that of each."""
        raise NotImplementedError

    def list_instances(self, call: Call, query: Query) -> Listed[v1.Instance]:
        """Every instance that can be a node of this cluster; an error discards the list."""
        raise NotImplementedError


class InstancesRpc:
    """Serves InstancesService."""

    def __init__(self, instances: Instances) -> None:
        self.instances = instances

    async def BatchGetInstances(self, call: Call, request: v1.BatchGetInstancesRequest) -> v1.BatchGetInstancesResponse:
        """Answers each item."""
        instances, nodes, query = self.instances, list(request.items), _query(request)
        results = Results(call, v1.BatchGetInstancesResponse, type(instances).__name__)
        if implements(instances, Instances, "get_instances"):
            outcomes = await call.invoke(instances.get_instances, nodes, query)
        else:
            outcomes = await each(call, nodes, instances.get_instance, query, concurrency=instances.concurrency)
        response: v1.BatchGetInstancesResponse = results.respond(request.items, outcomes)
        return response

    def ListInstances(self, call: Call, request: v1.ListInstancesRequest) -> AsyncIterator[v1.ListInstancesResponse]:
        """Sends the list in parts."""
        return pages(call, v1.ListInstancesResponse, self.instances.list_instances, _query(request))


def _query(request: v1.BatchGetInstancesRequest | v1.ListInstancesRequest) -> Query:
    """Reads a view of a later minor as everything."""
    is_narrow = request.view in (v1.INSTANCE_VIEW_METADATA, v1.INSTANCE_VIEW_STATE)
    view = request.view if is_narrow else v1.INSTANCE_VIEW_FULL
    return Query(view, max(request.max_staleness.ToTimedelta(), timedelta()))
