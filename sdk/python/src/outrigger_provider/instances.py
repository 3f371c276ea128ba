"""Looks up the machines behind Nodes: the methods that an author writes, and how InstancesService calls them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from . import v1
from .call import Call, implements
from .errors import Error, NotAnsweredError, status_of
from .lists import Listed, pages
from .outcomes import Lookup, split

# Seconds before its deadline that a batch is answered, at most: enough to send the answer.
ANSWER_MARGIN = 1.0


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
        """Answers each node."""
        if implements(self.instances, Instances, "get_instances"):
            lookups = await call.invoke(self.instances.get_instances, list(request.items), _query(request))
        else:
            lookups = await self._each(call, request.items, _query(request))
        response = v1.BatchGetInstancesResponse()
        for name, lookup in lookups.items():
            response.results.append(_result(call, name, lookup))
        return response

    async def _each(self, call: Call, nodes: Sequence[v1.Node], query: Query) -> dict[str, Lookup]:
        """Looks up one by one. Shortly before the deadline it answers what is there: the controller asks about the rest
        again, each alone, so that a machine that hangs does not hide the others."""
        places = asyncio.Semaphore(self.instances.concurrency)

        async def look_up(node: v1.Node) -> Lookup:
            async with places:
                lookup: Lookup = await call.invoke(self.instances.get_instance, node, query)
                return lookup

        tasks = {node.name: asyncio.create_task(look_up(node)) for node in nodes}
        remaining = call.remaining()
        try:
            timeout = None if remaining is None else remaining - min(ANSWER_MARGIN, remaining / 10)
            if tasks:
                await asyncio.wait(tasks.values(), timeout=timeout)
            return {name: _outcome(task) for name, task in tasks.items()}
        finally:
            for task in tasks.values():
                task.cancel()

    def ListInstances(self, call: Call, request: v1.ListInstancesRequest) -> AsyncIterator[v1.ListInstancesResponse]:
        """Sends the list in parts."""
        return pages(call, v1.ListInstancesResponse, self.instances.list_instances, _query(request))


def _outcome(task: asyncio.Task[Lookup]) -> Lookup:
    if not task.done() or task.cancelled():
        return NotAnsweredError("the cloud has not answered")
    error = task.exception()
    return error if isinstance(error, Exception) else task.result()


def _result(call: Call, name: str, lookup: Lookup) -> v1.InstanceResult:
    """The result of a node. A lookup of another type is an error of its node."""
    outcome, effects = split(lookup)
    if isinstance(outcome, v1.Instance):
        return v1.InstanceResult(key=name, found=outcome, effects=effects)
    if isinstance(outcome, v1.Absent):
        return v1.InstanceResult(key=name, absent=outcome, effects=effects)
    if isinstance(outcome, v1.NotManaged):
        return v1.InstanceResult(key=name, not_managed=outcome, effects=effects)
    error = outcome if isinstance(outcome, Exception) else TypeError(f"{type(outcome).__name__} is no lookup of {name}")
    effects = error.effects if isinstance(error, Error) else None
    return v1.InstanceResult(key=name, error=status_of(error, call.request_id), effects=effects)


def _query(request: v1.BatchGetInstancesRequest | v1.ListInstancesRequest) -> Query:
    """Reads a view of a later minor as everything."""
    is_narrow = request.view in (v1.INSTANCE_VIEW_METADATA, v1.INSTANCE_VIEW_STATE)
    view = request.view if is_narrow else v1.INSTANCE_VIEW_FULL
    return Query(view, max(request.max_staleness.ToTimedelta(), timedelta()))
