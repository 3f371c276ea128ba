"""All that the calls have in common: admission, errors, and one change per key, to its end."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import grpc

from cloudprovider.v1.common_pb2 import CallContext

from .contract import CHANGES
from .errors import Refusal

T = TypeVar("T")
Context = grpc.aio.ServicerContext[Any, Any]


class Gate(grpc.aio.ServerInterceptor):
    """Admits calls, and turns a Refusal that a handler raises into a status with details."""

    def __init__(self) -> None:
        self.cluster_name: str | None = None
        self.stopping = False
        self.running: set[asyncio.Task[Any]] = set()

    def admit(self, context: CallContext) -> None:
        if self.cluster_name != context.cluster_name:
            raise Refusal("NOT_HANDSHAKED", f"no handshake for the cluster {context.cluster_name!r} yet")

    def _enter(self, request: Any, method: str) -> None:
        if self.stopping:
            raise Refusal("SHUTTING_DOWN", "the provider is ending")
        if task := asyncio.current_task():
            self.running.add(task)
            task.add_done_callback(self.running.discard)
        # An upload has its context in its first message, Handshake and GetStatus have none.
        if isinstance(context := getattr(request, "context", None), CallContext):
            self.admit(context)
            if method in CHANGES and not context.cluster_uid:
                raise Refusal("INVALID_REQUEST", "no cluster_uid, which tells the cluster's resources from another's")

    async def intercept_service(self, continuation: Callable[..., Awaitable[Any]], details: Any) -> Any:
        handler = await continuation(details)

        async def unary(request: Any, context: Context) -> Any:
            try:
                self._enter(request, details.method)
                return await (handler.unary_unary or handler.stream_unary)(request, context)
            except Refusal as refusal:
                await abort(context, refusal)

        async def stream(request: Any, context: Context) -> AsyncIterator[Any]:
            try:
                self._enter(request, details.method)
                async for response in handler.unary_stream(request, context):
                    yield response
            except Refusal as refusal:
                await abort(context, refusal)

        if handler and handler.unary_unary:
            return handler._replace(unary_unary=unary)
        if handler and handler.stream_unary:
            return handler._replace(stream_unary=unary)
        return handler and handler._replace(unary_stream=stream)


async def abort(context: Context, refusal: Refusal) -> None:
    details = ("grpc-status-details-bin", refusal.status.SerializeToString())
    await context.abort(refusal.code, refusal.status.message, (details,))


class Caller:
    """Tells a change whether its call is still there."""

    gone = False

    def check(self) -> None:
        """Ends the work of a call that is gone. To be called before each change of the cloud."""
        if self.gone:
            raise asyncio.CancelledError


class Changes:
    """One change per key at a time; it outlives a call that is cancelled."""

    def __init__(self) -> None:
        self.running: dict[str, asyncio.Task[Any]] = {}

    async def run(self, key: str, change: Callable[[Caller], Coroutine[Any, Any, T]]) -> T:
        if key in self.running:
            raise Refusal("OPERATION_IN_PROGRESS", f"{key} is being changed by another call", retry_after=1)
        caller = Caller()
        # gRPC cancels the task of a call wherever it waits, in the middle of a cloud call too.
        task = self.running[key] = asyncio.create_task(change(caller))
        task.add_done_callback(lambda _: self.running.pop(key))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            caller.gone = True
            raise
