"""Serves grpc.health.v1 from the provider's own status, and asks a running provider how it is: a kubelet cannot reach a
Unix socket, so a probe is a command."""

import socket
import urllib.parse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from . import v1
from .contract import METHODS
from .core import Context

# Some servers refuse the path of the socket, which is grpcio's own :authority.
CLIENT_OPTIONS = [("grpc.default_authority", "localhost"), ("grpc.max_receive_message_length", -1)]


class Health(health_pb2_grpc.HealthServicer):
    """Has no state of its own; `served` are the names of the services."""

    def __init__(self, is_serving: Callable[[], bool], served: set[str]) -> None:
        self.is_serving, self.served = is_serving, {"", *served}

    async def Check(self, request: Any, context: Context) -> Any:
        """The whole provider, or one of its services."""
        if request.service not in self.served:
            # The code that the health protocol prescribes.
            await context.abort(grpc.StatusCode.NOT_FOUND, f"service {request.service!r} is not served here")
        states = health_pb2.HealthCheckResponse
        return states(status=states.SERVING if self.is_serving() else states.NOT_SERVING)


async def probe(path: Path, *, is_readiness: bool = False, seconds: float = 4) -> tuple[bool, str]:
    """Returns whether the probe succeeds, and a sentence for an operator. It fails if the provider does not answer or
    is broken; a readiness probe also while it is starting."""
    # First, so that a missing socket is not reported as an answer of the provider.
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(seconds)
        try:
            client.connect(str(path))
        except OSError as error:
            return False, f"no provider serves unix://{path}: {error}"
    method = METHODS["GetStatus"]
    # A connection of its own: an old one could hide that the process is dead.
    async with grpc.aio.insecure_channel(target_of(path), options=CLIENT_OPTIONS) as channel:
        ask: Any = channel.unary_unary(method.path, None, method.response.FromString)
        try:
            status: v1.GetStatusResponse = await ask(b"", timeout=seconds)
        except grpc.aio.AioRpcError as error:
            return False, f"the provider at unix://{path} does not answer: {error.code().name}: {error.details()}"
    readiness = v1.Readiness.Name(status.readiness).removeprefix("READINESS_").lower()
    failing = [each for each in status.dependencies if each.readiness != v1.READINESS_READY]
    because = ", ".join(f"{each.name} ({each.message})" for each in failing)
    fails = {v1.READINESS_BROKEN, *([v1.READINESS_STARTING] if is_readiness else [])}
    sentence = f"the provider at unix://{path} is {readiness}{': ' if because else ''}{because}"
    return status.readiness not in fails, sentence


def target_of(path: Path) -> str:
    """A target is a URI."""
    return f"unix:{urllib.parse.quote(str(path))}"
