"""Admits calls, and runs their handlers so that a change outlives its caller."""

import asyncio
import time
import uuid
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import grpc

from . import v1
from .call import Call, Cluster
from .contract import DEFAULT_MESSAGE_BYTES, Method
from .errors import CallerGoneError, Error, NotAnsweredError, Reason
from .logs import call_fields, logger
from .provider import Provider

# Seconds that a handler of a change may run on after its caller has gone.
CANCEL_GRACE = 30.0

Context = grpc.aio.ServicerContext[Any, Any]

# A cluster without a UID: an author who tags with it could not tell its resources from another cluster's.
TAGGED = {"cloudprovider.v1.LoadBalancersService", "cloudprovider.v1.RoutesService"}


@dataclass(frozen=True)
class Session:
    """The latest handshake."""

    cluster: Cluster
    max_send_bytes: int


class Core:
    """The state that the services of one server share."""

    def __init__(self, provider: Provider) -> None:
        self.provider, self.offered = provider, provider.check()
        self.boot_id = str(uuid.uuid4())
        self.session: Session | None = None
        self.is_stopping = False
        self.calls: set[Call] = set()
        self.executor = ThreadPoolExecutor(provider.threads, thread_name_prefix="handler")

    def shake_hands(self, cluster: v1.ClusterInfo, max_receive_bytes: int) -> None:
        """Takes the cluster of a handshake."""
        named = Cluster(cluster.name, cluster.uid, tuple(cluster.pod_cidrs), tuple(cluster.service_cidrs))
        if self.session and not named.uid and named.name == self.session.cluster.name:
            # The caller has fewer rights, which must not make existing resources another cluster's.
            named = replace(named, uid=self.session.cluster.uid)
        self.session = Session(named, max_receive_bytes or DEFAULT_MESSAGE_BYTES)

    def refuse_when_stopping(self) -> None:
        """No call begins once the process is ending."""
        if self.is_stopping:
            raise Error(Reason.SHUTTING_DOWN, "this provider is ending; connect again")

    def admit(self, method: Method, sent: v1.CallContext, request: Any, context: Context) -> Call:
        """The facts of a call that may run."""
        self.refuse_when_stopping()
        if self.session is None:
            raise Error(Reason.NOT_HANDSHAKED, "no handshake since this provider process started; call Handshake first")
        cluster = self.session.cluster
        if cluster.name != sent.cluster_name:
            text = f"the call is about cluster {sent.cluster_name!r}, the latest handshake about {cluster.name!r}"
            raise Error(Reason.NOT_HANDSHAKED, f"{text}; call Handshake first")
        if sent.cluster_uid:
            cluster = replace(cluster, uid=sent.cluster_uid)
        if not cluster.uid and not self.provider.without_cluster_id and method.service in TAGGED:
            text = "the cluster has no UID, so that its resources cannot be told from another cluster's"
            raise Error(Reason.INVALID_REQUEST, text)
        remaining = context.time_remaining()
        call = Call(
            cluster=cluster,
            request_id=sent.request_id,
            rpc=method.name,
            traceparent=_traceparent(context),
            deadline=time.monotonic() + (method.deadline(request) if remaining is None else remaining),
            changes_cloud=method.rules.changes_cloud,
            max_send_bytes=self.session.max_send_bytes,
            executor=self.executor,
        )
        fields = {"rpc": call.rpc, "request_id": call.request_id, "traceparent": call.traceparent}
        call_fields.set({name: value for name, value in fields.items() if value})
        self.calls.add(call)
        return call

    def leave(self, call: Call) -> None:
        """The caller no longer waits: a lookup ends, a change goes on for a while."""
        call.is_gone = True
        for task in list(call.tasks):
            if not call.changes_cloud:
                task.cancel()
            else:
                asyncio.get_running_loop().call_later(CANCEL_GRACE, task.cancel)

    async def run(self, call: Call, work: Coroutine[Any, Any, Any]) -> Any:
        """Runs a handler in a task of its own, since gRPC cancels its own task in the middle of a cloud call."""
        task = asyncio.create_task(work, name=f"{call.rpc} {call.request_id}")
        call.keep(task)
        task.add_done_callback(lambda task: _note_end(call, task))
        try:
            async with asyncio.timeout(call.remaining()):
                return await asyncio.shield(task)
        except TimeoutError:
            if task.done():
                # It ended in the moment of the deadline, or the exception is its own.
                return task.result()
            self.leave(call)
            raise NotAnsweredError("the deadline of the call passed before its answer") from None
        except asyncio.CancelledError:
            if task.cancelled():
                raise RuntimeError("the handler was cancelled, and not by its caller") from None
            self.leave(call)
            raise

    def ended(self, call: Call | None) -> None:
        """Forgets a call, once its tasks have ended."""
        if call is None:
            return
        if call.tasks:
            next(iter(call.tasks)).add_done_callback(lambda _: self.ended(call))
        else:
            self.calls.discard(call)

    async def running(self, seconds: float) -> int:
        """Waits until no call runs, at most so many seconds; answers how many do."""
        until = time.monotonic() + seconds
        while tasks := {task for call in self.calls for task in call.tasks}:
            if (left := until - time.monotonic()) <= 0:
                return len(tasks)
            await asyncio.wait(tasks, timeout=left)
            # So that calls are forgotten whose tasks have ended.
            await asyncio.sleep(0)
        return 0


def _note_end(call: Call, task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and (error := task.exception()) and call.is_gone and not isinstance(error, CallerGoneError):
        logger.error("a call failed after its caller had gone", exc_info=error)


def _traceparent(context: Context) -> str:
    # W3C's form is 55 characters; a later version may be longer, but not endless.
    for key, value in context.invocation_metadata() or ():
        if key == "traceparent" and isinstance(value, str) and len(value) <= 128:
            return value
    return ""
