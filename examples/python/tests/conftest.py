"""The provider on a socket of its own, over a cloud whose calls a test lets through."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest_asyncio
from outrigger_provider import v1
from outrigger_provider.testing import CONTEXT, Client, served

from example_provider.__main__ import provider
from example_provider.cloud import Cloud

TAGS = (CONTEXT.cluster_uid, "uid-1")


class SteppedCloud(Cloud):
    """Each call of it waits for a step."""

    def __init__(self, switch: Path) -> None:
        super().__init__(switch=switch)
        self.begun, self.steps = 0, asyncio.Semaphore(1_000_000)

    async def call(self, *, changes: bool = False) -> None:
        self.begun += 1
        await self.steps.acquire()
        await super().call(changes=changes)

    def hold(self) -> None:
        """From now on calls wait; `begun` counts them."""
        self.begun, self.steps = 0, asyncio.Semaphore(0)

    async def reached(self, calls: int) -> None:
        await until(lambda: self.begun == calls)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


@pytest_asyncio.fixture
async def cloud(tmp_path: Path) -> SteppedCloud:
    return SteppedCloud(tmp_path / "switch")


@pytest_asyncio.fixture
async def client(cloud: SteppedCloud, tmp_path: Path) -> AsyncIterator[Client]:
    async with served(provider(cloud), tmp_path / "provider.sock") as client:
        yield client


def node(name: str, ip: str) -> v1.Node:
    return v1.Node(name=name, uid=f"uid-{name}", addresses=[v1.NodeAddress(type="InternalIP", address=ip)])


def service(uid: str = "uid-1") -> v1.Service:
    port = v1.ServicePort(name="http", protocol="TCP", port=80, node_port=30080, target_port="8080")
    return v1.Service(namespace="default", name=f"web-{uid}", uid=uid, type="LoadBalancer", ports=[port])


INLINE = v1.NodeTargets(inline=v1.InlineNodes(nodes=[node("a", "10.0.0.1")]))
