"""Lists, makes and removes routes from Pod CIDRs to Nodes: the methods that an author writes, and how RoutesService
calls them."""

from collections.abc import AsyncIterator, Awaitable
from contextlib import suppress
from ipaddress import ip_network
from typing import TypeAlias, TypeVar

from . import v1
from .call import Call
from .keys import Keys
from .lists import Listed, pages
from .outcomes import WithEffects, absent, split

T = TypeVar("T")
Changed: TypeAlias = T | WithEffects[T] | Awaitable[T | WithEffects[T]]


class Routes:
    """Mark each route with call.cluster.uid, in the cloud call that creates it, and list and delete that cluster's
    routes only. The key is the destination CIDR: one change of it runs at a time. call.check() is to be asked before
    each change as in LoadBalancers. A cloud that changes many routes by one call: Batcher."""

    capability = v1.RoutesCapability()

    def list_routes(self, call: Call) -> Listed[v1.Route]:
        """Every route of this cluster, those that lead nowhere too; an error discards the list."""
        raise NotImplementedError

    def create_route(self, call: Call, route: v1.Route) -> Changed[v1.Route | None]:
        """Makes a route, and answers it as a list shows it; None: as it was asked for. A route that exists is a
        success, one to another target is CONFLICTING_RESOURCE and stays."""
        raise NotImplementedError

    def delete_route(self, call: Call, route: v1.Route) -> Changed[None]:
        """Removes a route, which is as it was listed or as its creation answered it. A route that is gone is a
        success."""
        raise NotImplementedError


class RoutesRpc:
    """Serves RoutesService."""

    def __init__(self, routes: Routes) -> None:
        self.routes, self.keys = routes, Keys(routes.capability.max_in_flight)

    def ListRoutes(self, call: Call, request: v1.ListRoutesRequest) -> AsyncIterator[v1.ListRoutesResponse]:
        """Sends the list in parts."""
        return pages(call, v1.ListRoutesResponse, self.routes.list_routes)

    async def CreateRoute(self, call: Call, request: v1.CreateRouteRequest) -> v1.CreateRouteResponse:
        """Makes."""
        async with self.keys.held(call, f"route {_spelled(request.route.destination_cidr)}"):
            made, effects = split(await call.invoke(self.routes.create_route, request.route))
        return v1.CreateRouteResponse(found=made or v1.Route(), effects=effects)

    async def DeleteRoute(self, call: Call, request: v1.DeleteRouteRequest) -> v1.DeleteRouteResponse:
        """Removes."""
        async with self.keys.held(call, f"route {_spelled(request.route.destination_cidr)}"):
            _, effects = split(await call.invoke(self.routes.delete_route, request.route))
        return v1.DeleteRouteResponse(absent=absent(), effects=effects)


def _spelled(destination: str) -> str:
    """The same for all spellings of a CIDR: a list may have another one than the create that follows its delete."""
    with suppress(ValueError):
        return str(ip_network(destination, strict=False))
    return destination
