"""A client that does as the controller does, for tests of a provider that serves in the same process."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc

from . import v1
from .contract import METHODS
from .health import CLIENT_OPTIONS, target_of
from .provider import Provider
from .server import serve
from .socket_file import identity

CONTEXT = v1.CallContext(request_id="r-1", cluster_name="test", cluster_uid="uid-of-the-cluster")


class Client:
    """Calls of a provider, by the names of their methods."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.channel = grpc.aio.insecure_channel(target_of(path), options=CLIENT_OPTIONS)

    def call(self, name: str, request: Any, *, timeout: float | None = None) -> Any:
        """The call of a method, to be awaited, or iterated where it answers with a stream. A request without a context
        gets CONTEXT. SyncNodeSet takes a list of requests."""
        first = next(iter(request), None) if METHODS[name].is_upload else request
        if first is not None and "context" in first.DESCRIPTOR.fields_by_name and not first.HasField("context"):
            first.context.CopyFrom(CONTEXT)
        return self.send(name, request, timeout=timeout)

    def send(self, name: str, request: Any, *, timeout: float | None = None) -> Any:
        """The call with the request as it is."""
        method = METHODS[name]
        kind = f"{'stream' if method.is_upload else 'unary'}_{'stream' if method.is_stream else 'unary'}"
        made = getattr(self.channel, kind)(method.path, method.request.SerializeToString, method.response.FromString)
        return made(iter(request) if method.is_upload else request, timeout=timeout)

    async def shake_hands(self) -> v1.HandshakeResponse:
        """Opens calls about the cluster of CONTEXT."""
        cluster = v1.ClusterInfo(name=CONTEXT.cluster_name, uid=CONTEXT.cluster_uid)
        request = v1.HandshakeRequest(min_minor=1, max_minor=1, cluster=cluster)
        answer: v1.HandshakeResponse = await self.call("Handshake", request)
        return answer

    async def sync(self, revision: str, nodes: Sequence[v1.Node]) -> v1.NodeTargets:
        """Uploads the node set, and returns targets that name it."""
        part = v1.SyncNodeSetRequest(nodes=nodes, complete=True, revision=revision, node_count=len(nodes))
        await self.call("SyncNodeSet", [part])
        return v1.NodeTargets(ref=v1.NodeSetRef(revision=revision))


@asynccontextmanager
async def served(provider: Provider, path: Path, *, shakes_hands: bool = True) -> AsyncIterator[Client]:
    """A provider at a path in a folder of the test, and a client that has shaken hands with it."""
    stop, before = asyncio.Event(), identity(path)
    serving = asyncio.create_task(serve(provider, path, stop))
    while not serving.done() and identity(path) in (None, before):  # noqa: ASYNC110
        await asyncio.sleep(0.005)
    client = Client(path)
    try:
        if shakes_hands and not serving.done():
            await client.shake_hands()
        yield client
    finally:
        await client.channel.close(None)
        stop.set()
        await serving
