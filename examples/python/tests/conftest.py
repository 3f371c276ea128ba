"""A provider on a socket of its own, and a client that does as the controller does."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import grpc
import pytest
import pytest_asyncio

from cloudprovider.v1.common_pb2 import CallContext, Node, NodeAddress, Service, ServicePort
from cloudprovider.v1.instances_pb2_grpc import InstancesServiceStub
from cloudprovider.v1.load_balancers_pb2_grpc import LoadBalancersServiceStub
from cloudprovider.v1.node_sets_pb2 import (
    NodeSetBegin,
    NodeSetChunk,
    NodeSetCommit,
    NodeSetRef,
    NodeTargets,
    SyncNodeSetRequest,
)
from cloudprovider.v1.node_sets_pb2_grpc import NodeSetsServiceStub
from cloudprovider.v1.provider_pb2 import ClusterInfo, HandshakeRequest
from cloudprovider.v1.provider_pb2_grpc import ProviderServiceStub
from example_provider.calls import Caller
from example_provider.cloud import Cloud
from example_provider.server import serve

CONTEXT = CallContext(request_id="r-1", cluster_name="test", cluster_uid="uid-of-the-cluster")


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


class SteppedCloud(Cloud):
    """Each call of it waits for a step."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = 0
        self.steps = asyncio.Semaphore(1_000_000)

    async def call(self) -> None:
        self.begun += 1
        await self.steps.acquire()

    def hold(self) -> None:
        """From now on calls wait; `begun` counts them."""
        self.begun, self.steps = 0, asyncio.Semaphore(0)

    async def reached(self, calls: int) -> None:
        await until(lambda: self.begun == calls)


class Client:
    def __init__(self, path: Path) -> None:
        self.channel = grpc.aio.insecure_channel(f"unix:{path}")
        self.provider = ProviderServiceStub(self.channel)
        self.instances = InstancesServiceStub(self.channel)
        self.node_sets = NodeSetsServiceStub(self.channel)
        self.load_balancers = LoadBalancersServiceStub(self.channel)

    async def shake_hands(self) -> None:
        cluster = ClusterInfo(name=CONTEXT.cluster_name, uid=CONTEXT.cluster_uid)
        await self.provider.Handshake(HandshakeRequest(min_minor=1, max_minor=1, cluster=cluster))

    async def sync(self, revision: str, nodes: list[Node]) -> NodeTargets:
        parts = [
            SyncNodeSetRequest(begin=begin(revision, len(nodes))),
            SyncNodeSetRequest(chunk=NodeSetChunk(upserts=nodes)),
            SyncNodeSetRequest(commit=NodeSetCommit(change_count=len(nodes))),
        ]
        await self.node_sets.SyncNodeSet(iter(parts))
        return NodeTargets(ref=NodeSetRef(set_id="nodes", revision=revision))


class Provider(Client):
    """A provider that serves in this process, with a client of it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.cloud, self.path, self.stop = SteppedCloud(), path, asyncio.Event()
        self.served = asyncio.create_task(serve(self.cloud, path, self.stop))

    async def end(self) -> None:
        await self.channel.close(None)
        self.stop.set()
        await asyncio.wait_for(self.served, 30)


def begin(revision: str, count: int) -> NodeSetBegin:
    return NodeSetBegin(context=CONTEXT, set_id="nodes", revision=revision, node_count=count)


def node(name: str, ip: str) -> Node:
    return Node(name=name, uid=f"uid-{name}", addresses=[NodeAddress(type="InternalIP", address=ip)])


def service(uid: str = "uid-1") -> Service:
    port = ServicePort(name="http", protocol="TCP", port=80, node_port=30080, target_port="8080")
    return Service(namespace="default", name=f"web-{uid}", uid=uid, type="LoadBalancer", ports=[port])


@pytest_asyncio.fixture
async def unnamed(tmp_path: Path) -> AsyncIterator[Provider]:
    """Before its first handshake."""
    provider = Provider(tmp_path / "provider.sock")
    await until(lambda: provider.path.exists() or provider.served.done())
    yield provider
    await provider.end()


@pytest_asyncio.fixture
async def provider(unnamed: Provider) -> Provider:
    await unnamed.shake_hands()
    return unnamed


@pytest.fixture
def callers(monkeypatch: pytest.MonkeyPatch) -> list[Caller]:
    """The callers of changes, in order; each knows whether it is gone."""
    created: list[Caller] = []

    class Recorded(Caller):
        def __init__(self) -> None:
            created.append(self)

    monkeypatch.setattr("example_provider.calls.Caller", Recorded)
    return created
