"""Admits calls, and runs their handlers so that a change outlives its caller."""

import asyncio
import time
import uuid
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import grpc

from . import v1
from .call import Call, Cluster
from .contract import Method
from .errors import CallerGoneError, Error, Reason
from .logs import call_fields, logger
from .provider import Provider

# Seconds that a handler of a change may run on after its caller has gone.
CANCEL_GRACE = 30.0

Context = grpc.aio.ServicerContext[Any, Any]

# A cluster without a UID: an author who tags with it could not tell its resources from another cluster's.
TAGGED = {"LoadBalancersService", "RoutesService"}


class Core:
    """The state that the services of one server share."""

    def __init__(self, provider: Provider) -> None:
        self.provider = provider
        self.boot_id = str(uuid.uuid4())
        # The latest handshake.
        self.cluster: Cluster | None = None
        self.max_send_bytes = 0
        self.is_stopping = False
        # By the tasks that run them.
        self.calls: dict[asyncio.Task[Any], Call] = {}

    def shake_hands(self, cluster: v1.ClusterInfo, max_receive_bytes: int) -> None:
        """Takes the cluster of a handshake."""
        named = Cluster(cluster.name, cluster.uid, tuple(cluster.pod_cidrs), tuple(cluster.service_cidrs))
        if self.cluster and not named.uid and named.name == self.cluster.name:
            # The caller has fewer rights, which must not make existing resources another cluster's.
            named = replace(named, uid=self.cluster.uid)
        self.cluster, self.max_send_bytes = named, max_receive_bytes or 4 << 20

    def admit(self, method: Method, request: Any, context: Context) -> Call:
        """The facts of a call that may run. No call begins once the process is ending."""
        if self.is_stopping:
            raise Error(Reason.SHUTTING_DOWN, "this provider is ending; connect again")
        if method.service == "ProviderService":
            return Call(rpc=method.name)
        if self.cluster is None:
            raise Error(Reason.NOT_HANDSHAKED, "no handshake since this provider process started; call Handshake first")
        sent, cluster = request.context, self.cluster
        if cluster.name != sent.cluster_name:
            text = f"the call is about cluster {sent.cluster_name!r}, the latest handshake about {cluster.name!r}"
            raise Error(Reason.NOT_HANDSHAKED, f"{text}; call Handshake first")
        cluster = replace(cluster, uid=sent.cluster_uid or cluster.uid)
        if not cluster.uid and not self.provider.without_cluster_id and method.service in TAGGED:
            text = "the cluster has no UID, so that its resources cannot be told from another cluster's"
            raise Error(Reason.INVALID_REQUEST, text)
        remaining = context.time_remaining()
        call = Call(
            cluster=cluster,
            request_id=sent.request_id,
            rpc=method.name,
            traceparent=_traceparent(context),
            identity=getattr(request, "identity", v1.LoadBalancerIdentity()),
            deadline=None if remaining is None else time.monotonic() + remaining,
            changes_cloud=method.changes_cloud,
            max_send_bytes=self.max_send_bytes,
        )
        fields = {"rpc": call.rpc, "request_id": call.request_id, "traceparent": call.traceparent}
        call_fields.set({name: value for name, value in fields.items() if value})
        return call

    async def run(self, call: Call, work: Coroutine[Any, Any, Any]) -> Any:
        """Runs a handler in a task of its own, since gRPC cancels its own task in the middle of a cloud call. Once the
        caller no longer waits a lookup ends, and a change goes on for a while."""
        task = asyncio.create_task(work, name=f"{call.rpc} {call.request_id}")
        self.keep(call, task)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise RuntimeError("the handler was cancelled, and not by its caller") from None
            call.is_gone = True
            asyncio.get_running_loop().call_later(CANCEL_GRACE if call.changes_cloud else 0, task.cancel)
            raise

    def keep(self, call: Call, task: asyncio.Task[Any]) -> None:
        """Lets the process wait for a task when it ends. asyncio itself has only a weak reference to one."""
        self.calls[task] = call
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        call = self.calls.pop(task)
        error = None if task.cancelled() else task.exception()
        if error and call.is_gone and not isinstance(error, CallerGoneError):
            logger.error("a call failed after its caller had gone", exc_info=error)

    async def drain(self, seconds: float) -> int:
        """Waits until no call runs, at most so many seconds; answers how many do."""
        if self.calls:
            await asyncio.wait(list(self.calls), timeout=seconds)
        return len(self.calls)


def _traceparent(context: Context) -> str:
    for key, value in context.invocation_metadata() or ():
        if key == "traceparent" and isinstance(value, str):
            return value
    return ""
