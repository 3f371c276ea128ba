"""Asks a running provider how it is: a kubelet cannot reach a Unix socket, so a probe is a command."""

import socket
import urllib.parse
from pathlib import Path
from typing import Any

import grpc

from . import v1
from .contract import METHODS

# Some servers refuse the path of the socket, which is grpcio's own :authority.
CLIENT_OPTIONS = [("grpc.default_authority", "localhost"), ("grpc.max_receive_message_length", -1)]


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
