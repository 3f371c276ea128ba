"""Serves grpc.health.v1 from the provider's own status."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from .core import Context

# Seconds between two looks of a watch for a change.
INTERVAL = 1.0


class Health(health_pb2_grpc.HealthServicer):
    """Has no state of its own; `served` are the names of the services."""

    def __init__(self, is_serving: Callable[[], bool], is_stopping: Callable[[], bool], served: set[str]) -> None:
        self.is_serving, self.is_stopping, self.served = is_serving, is_stopping, {"", *served}

    def _answer(self) -> Any:
        states = health_pb2.HealthCheckResponse
        return states(status=states.SERVING if self.is_serving() else states.NOT_SERVING)

    async def Check(self, request: Any, context: Context) -> Any:
        """The whole provider, or one of its services."""
        if request.service not in self.served:
            # The code that the health protocol prescribes.
            await context.abort(grpc.StatusCode.NOT_FOUND, f"service {request.service!r} is not served here")
        return self._answer()

    async def Watch(self, request: Any, context: Context) -> AsyncIterator[Any]:
        """Sends each change, and ends with the process: an open watch would keep the connection open."""
        last = None
        while True:
            is_last = self.is_stopping()
            answer = self._answer()
            if request.service not in self.served:
                answer = health_pb2.HealthCheckResponse(status=health_pb2.HealthCheckResponse.SERVICE_UNKNOWN)
            if answer.status != last:
                yield answer
            last = answer.status
            if is_last:
                return
            await asyncio.sleep(INTERVAL)
