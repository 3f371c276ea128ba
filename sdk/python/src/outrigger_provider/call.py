"""One call as its handler sees it."""

import asyncio
import contextvars
import inspect
import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

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
    # By time.monotonic(): when the caller stops waiting.
    deadline: float | None = None
    changes_cloud: bool = False
    # The largest message that the caller accepts.
    max_send_bytes: int = 4 << 20
    executor: Executor | None = None
    is_gone: bool = False
    tasks: set[asyncio.Task[Any]] = field(default_factory=set)

    def check(self) -> None:
        """Raises CallerGoneError once the caller no longer waits: it cancelled, its deadline passed, its connection
        was lost, or the process is ending. To be called before each change of the cloud."""
        if self.is_gone:
            raise CallerGoneError

    def remaining(self) -> float | None:
        """Seconds until the deadline: the limit of a cloud request of this call."""
        return None if self.deadline is None else max(self.deadline - time.monotonic(), 0)

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Lets the process wait for a task when it ends. asyncio itself has only a weak reference to one."""
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def invoke(self, handler: Callable[..., Any], *arguments: Any) -> Any:
        """Awaits a handler that is `async def`, and runs one that is `def` in a thread."""
        if inspect.iscoroutinefunction(handler):
            return await handler(self, *arguments)
        run = partial(contextvars.copy_context().run, handler, self, *arguments)
        thread = asyncio.get_running_loop().run_in_executor(self.executor, run)
        try:
            result = await asyncio.shield(thread)
        except asyncio.CancelledError:
            # A thread cannot be cancelled, so the key of a change stays locked until it has ended.
            if self.changes_cloud:
                await asyncio.wait([thread])
            raise
        return await result if inspect.isawaitable(result) else result


def implements(service: object, base: type, method: str) -> bool:
    """Returns whether the author has written this method of a service."""
    return getattr(type(service), method) is not getattr(base, method)
