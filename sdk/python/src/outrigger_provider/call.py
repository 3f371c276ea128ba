"""One call as its handler sees it."""

import asyncio
import inspect
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from . import v1
from .errors import CallerGoneError


@dataclass(frozen=True)
class Cluster:
    """The cluster that calls are about."""

    # The controller's --cluster-name.
    name: str = ""
    # --cluster-uid, else the UID of kube-system: a stable identity for tags in the cloud.
    uid: str = ""
    # Networks: none, one, or one of each IP family.
    pod_cidrs: tuple[str, ...] = ()
    service_cidrs: tuple[str, ...] = ()


@dataclass(eq=False)
class Call:
    """The facts of a call, and whether its caller still waits. Handlers in tests get a Call of their own making."""

    cluster: Cluster = field(default_factory=Cluster)
    # Names this attempt in logs, traces and the cloud's client tokens. It changes with the next attempt.
    request_id: str = ""
    rpc: str = ""
    # The caller's W3C trace context; may be empty.
    traceparent: str = ""
    # About a load balancer: its identity in the last answer that the controller remembers, else empty. A hint for a
    # cloud whose lists lag behind its creations: look there first, and act only on what carries the Service's UID.
    identity: v1.LoadBalancerIdentity = field(default_factory=v1.LoadBalancerIdentity)
    # By time.monotonic(): when the caller stops waiting.
    deadline: float | None = None
    changes_cloud: bool = False
    # The largest message that the caller accepts.
    max_send_bytes: int = 4 << 20
    is_gone: bool = False

    def check(self) -> None:
        """Raises CallerGoneError once the caller no longer waits: it cancelled, its deadline passed, its connection
        was lost, or the process is ending. To be called before each change of the cloud."""
        if self.is_gone:
            raise CallerGoneError("the caller no longer waits for this call")

    def remaining(self) -> float | None:
        """Seconds until the deadline: the limit of a cloud request of this call."""
        return None if self.deadline is None else max(self.deadline - time.monotonic(), 0)

    async def invoke(self, handler: Callable[..., Any], *arguments: Any) -> Any:
        """Awaits a handler that is `async def`, and runs one that is `def` in a thread."""
        if inspect.iscoroutinefunction(handler):
            return await handler(self, *arguments)
        thread = asyncio.create_task(asyncio.to_thread(handler, self, *arguments))
        try:
            result = await asyncio.shield(thread)
        except asyncio.CancelledError:
            # A thread cannot be cancelled, so the key of a change stays locked until it has ended.
            if self.changes_cloud:
                await asyncio.wait([thread])
            # A lookup that has not begun yet never does.
            thread.cancel()
            raise
        return await result if inspect.isawaitable(result) else result


def implements(service: object, base: type, method: str) -> bool:
    """Returns whether the author has written this method of a service."""
    return getattr(type(service), method) is not getattr(base, method)
