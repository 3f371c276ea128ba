"""A cloud whose handlers a test sets, and files of vectors."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from outrigger_provider import (
    ABSENT,
    Call,
    Instances,
    LoadBalancers,
    Provider,
    Query,
    Routes,
    Targets,
    not_visible_yet,
    ready,
    v1,
)

VECTORS = Path(__file__).parents[2] / "vectors"


def vectors(*names: str) -> list[Any]:
    return [vector for name in names for vector in json.loads((VECTORS / f"{name}.json").read_text())]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


class Machines(Instances):
    """Each lookup is a function of a test."""

    def __init__(self, look_up: Callable[..., Any] = lambda call, node: not_visible_yet()) -> None:
        self.look_up = look_up

    async def get_instance(self, call: Call, node: v1.Node, query: Query) -> Any:
        answer = self.look_up(call, node)
        return await answer if asyncio.iscoroutine(answer) else answer


class Balancers(LoadBalancers):
    """Each change is a function of a test."""

    def __init__(self, change: Callable[..., Any] = lambda call, service, targets: ready("192.0.2.1")) -> None:
        self.change = change

    async def get_load_balancer(self, call: Call, service: v1.Service, targets: Targets | None) -> Any:
        return ABSENT

    async def ensure_load_balancer(self, call: Call, service: v1.Service, targets: Targets) -> Any:
        answer = self.change(call, service, targets)
        return await answer if asyncio.iscoroutine(answer) else answer

    async def update_load_balancer_nodes(self, call: Call, service: v1.Service, targets: Targets) -> Any:
        return await self.ensure_load_balancer(call, service, targets)

    async def delete_load_balancer(self, call: Call, service: v1.Service) -> Any:
        return self.change(call, service)


class Table(Routes):
    """Each change is a function of a test."""

    def __init__(self, change: Callable[..., Any]) -> None:
        self.change = change

    async def list_routes(self, call: Call) -> Any:
        return []

    async def create_route(self, call: Call, route: v1.Route) -> Any:
        answer = self.change(call, route)
        return await answer if asyncio.iscoroutine(answer) else answer

    async def delete_route(self, call: Call, route: v1.Route) -> Any:
        return await self.create_route(call, route)


def provider(**services: Any) -> Provider:
    return Provider("test", "1", **services)


def service(uid: str = "uid-1", **fields: Any) -> v1.Service:
    port = v1.ServicePort(name="http", protocol="TCP", port=80, node_port=30080, target_port="8080")
    return v1.Service(namespace="default", name=f"web-{uid}", uid=uid, type="LoadBalancer", ports=[port], **fields)


INLINE = v1.NodeTargets(inline=v1.InlineNodes(nodes=[v1.Node(name="a")]))


def ensure(uid: str = "uid-1", targets: v1.NodeTargets = INLINE) -> v1.EnsureLoadBalancerRequest:
    return v1.EnsureLoadBalancerRequest(service=service(uid), targets=targets)


def look_up(*names: str) -> v1.BatchGetInstancesRequest:
    return v1.BatchGetInstancesRequest(items=[v1.Node(name=name) for name in names])
