"""Serves grpc.health.v1 for probes, from the provider's own status."""

from collections.abc import Callable
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from .core import Context


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
