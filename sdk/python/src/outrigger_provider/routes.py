"""Lists, makes and removes routes from Pod CIDRs to Nodes: the methods that an author writes, and how RoutesService
calls them."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from ipaddress import ip_network
from typing import Any, TypeAlias

from . import v1
from .call import Call, implements
from .each import each
from .errors import Error
from .keys import Keys
from .lists import Listed, pages
from .results import Results, WithEffects, absent

# A route that was made, as a list shows it; None: as it was asked for, or removed. An exception is its error.
Change: TypeAlias = v1.Route | Exception | None
Changes: TypeAlias = Mapping[str, Change | WithEffects[Change]]

# Seconds after which a route is asked for again that another call changes.
BUSY_RETRY = 1.0


class Routes:
    """Mark each route with call.cluster.uid, in the cloud call that creates it, and list and delete that cluster's
    routes only. The key is the destination CIDR: one change of it runs at a time, another one is refused. The author
    writes list_routes, and create_route and delete_route, or the methods of their plurals where one call of the cloud
    changes many. call.check() is to be asked before each change as in LoadBalancers."""

    capability = v1.RoutesCapability()
    # How many create_route or delete_route run at a time for one batch.
    concurrency = 8

    def list_routes(self, call: Call) -> Listed[v1.Route]:
        """Every route of this cluster, those that lead nowhere too; an error discards the list."""
        raise NotImplementedError

    def create_route(self, call: Call, route: v1.Route) -> Change | Awaitable[Change]:
        """Makes a route. A route that exists is a success, one to another target is CONFLICTING_RESOURCE and stays."""
        raise NotImplementedError

    def delete_route(self, call: Call, route: v1.Route) -> Change | Awaitable[Change]:
        """Removes a route, which is as it was listed or as its creation answered it. A route that is gone is a
        success."""
        raise NotImplementedError

    def create_routes(self, call: Call, routes: Sequence[v1.Route]) -> Changes | Awaitable[Changes]:
        """The outcome of each route by its destination CIDR as it is spelled there."""
        raise NotImplementedError

    def delete_routes(self, call: Call, routes: Sequence[v1.Route]) -> Changes | Awaitable[Changes]:
        """Likewise."""
        raise NotImplementedError


class RoutesRpc:
    """Serves RoutesService."""

    def __init__(self, routes: Routes) -> None:
        self.routes = routes
        self.keys = Keys(0, BUSY_RETRY, routes.capability.max_in_flight)

    def ListRoutes(self, call: Call, request: v1.ListRoutesRequest) -> AsyncIterator[v1.ListRoutesResponse]:
        """Sends the list in parts."""
        return pages(call, v1.ListRoutesResponse, self.routes.list_routes)

    async def BatchCreateRoutes(self, call: Call, request: v1.BatchCreateRoutesRequest) -> v1.BatchCreateRoutesResponse:
        """Answers each item."""
        results = Results(call, v1.BatchCreateRoutesResponse, type(self.routes).__name__)
        work = (self.routes.create_route, self.routes.create_routes)
        outcomes = await self._change(
            call, list(request.items), *work, lambda made: v1.Route() if made is None else made
        )
        response: v1.BatchCreateRoutesResponse = results.respond(request.items, outcomes)
        return response

    async def BatchDeleteRoutes(self, call: Call, request: v1.BatchDeleteRoutesRequest) -> v1.BatchDeleteRoutesResponse:
        """Answers each item."""
        results = Results(call, v1.BatchDeleteRoutesResponse, type(self.routes).__name__)
        work = (self.routes.delete_route, self.routes.delete_routes)
        outcomes = await self._change(
            call, list(request.items), *work, lambda removed: absent() if removed is None else removed
        )
        response: v1.BatchDeleteRoutesResponse = results.respond(request.items, outcomes)
        return response

    async def _change(
        self,
        call: Call,
        routes: list[v1.Route],
        one: Callable[..., Any],
        many: Callable[..., Any],
        succeeded: Callable[[Any], Any],
    ) -> dict[str, Any]:
        """Works on the routes that no other call changes. The others are not waited for: the batch would wait too."""
        outcomes: dict[str, Any] = {}
        async with self.keys.slot(call), AsyncExitStack() as held:
            free = []
            for route in routes:
                try:
                    await held.enter_async_context(self.keys.key(call, f"route {spelled(route.destination_cidr)}"))
                    free.append(route)
                except Error as error:
                    outcomes[route.destination_cidr] = error
            if free and implements(self.routes, Routes, many.__name__):
                changed = await call.invoke(many, free)
            else:
                changed = await each(call, free, one, concurrency=self.routes.concurrency)
        if not isinstance(changed, Mapping):
            raise TypeError(f"{many.__qualname__} has answered {type(changed).__name__}, and not a mapping")
        for destination, change in changed.items():
            if isinstance(change, WithEffects):
                outcomes[destination] = WithEffects(_after(change.outcome, succeeded), change.effects)
            else:
                outcomes[destination] = _after(change, succeeded)
        return outcomes


def _after(change: object, succeeded: Callable[[Any], Any]) -> Any:
    return change if isinstance(change, Exception) else succeeded(change)


def spelled(destination: str) -> str:
    """The same for all spellings of a destination CIDR. A text that is no CIDR is its own key."""
    try:
        return str(ip_network(destination, strict=False))
    except ValueError:
        return destination
