"""A probe: a kubelet cannot reach a Unix socket, so it runs a command in the container."""

import urllib.parse
from pathlib import Path

import grpc

from cloudprovider.v1.provider_pb2 import GetStatusRequest, Readiness
from cloudprovider.v1.provider_pb2_grpc import ProviderServiceStub


async def probe(path: Path, seconds: float = 3) -> tuple[bool, str]:
    """Asks whether the provider answers and is not broken, and for a sentence about it."""
    # A connection of its own, so that none hides a dead process.
    channel = grpc.aio.insecure_channel(f"unix:{urllib.parse.quote(str(path))}")
    async with channel:
        try:
            status = await ProviderServiceStub(channel).GetStatus(GetStatusRequest(), timeout=seconds)
        except grpc.aio.AioRpcError as error:
            return False, f"the provider at {path} does not answer: {error.code().name}: {error.details()}"
    state = Readiness.Name(status.readiness).removeprefix("READINESS_").lower()
    return status.readiness != Readiness.READINESS_BROKEN, f"the provider at {path} is {state}"
