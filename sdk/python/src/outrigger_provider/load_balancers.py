"""Makes and removes the load balancers of Services: the methods that an author writes, and how LoadBalancersService
calls them."""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

from . import v1
from .call import Call
from .each import each
from .errors import Error, Reason, cut
from .keys import Keys
from .lists import Listed, pages
from .node_sets import NodeSets
from .results import Results
from .targets import Targets

# Seconds that a call waits for another one of its Service: an update must not fall silent because of one.
KEY_PATIENCE = 10.0
# The controller asks again after so many seconds.
LEAST_RETRY, MOST_RETRY = 1, 300


class LoadBalancers:
    """The key is Service.uid. Tag with it and with call.cluster.uid, in the cloud call that creates: an answer may be
    lost. Each method carries the whole desired state and may be repeated.

    One change of a Service runs at a time, also while a handler outlives its caller. A handler of a change is not
    cancelled when its caller goes away: ask call.check() between two changes of the cloud. It has 30 s to end. Each
    method may be `async def`, or `def` to run in a thread. list_load_balancers and plan_load_balancer are optional.
    """

    # The server fills in `list` and `plan`. max_in_flight is 1 for code that was written for one at a time.
    capability = v1.LoadBalancersCapability()
    # How many Services of one update are worked on at a time.
    concurrency = 8

    def get_load_balancer(
        self, call: Call, service: v1.Service, targets: Targets | None
    ) -> v1.LoadBalancerAnswer | Awaitable[v1.LoadBalancerAnswer]:
        """Compares the load balancer with the Service and, unless they are None, with the targets. Changes nothing.
        Answers: ready, differs, in_progress, NOT_MANAGED, ABSENT."""
        raise NotImplementedError

    def ensure_load_balancer(
        self, call: Call, service: v1.Service, targets: Targets
    ) -> v1.LoadBalancerAnswer | Awaitable[v1.LoadBalancerAnswer]:
        """Makes the load balancer what the Service and its targets ask for; no targets are legal. Answers: ready,
        in_progress, NOT_MANAGED."""
        raise NotImplementedError

    def update_load_balancer_nodes(
        self, call: Call, service: v1.Service, targets: Targets
    ) -> v1.LoadBalancerAnswer | Awaitable[v1.LoadBalancerAnswer]:
        """Gives one load balancer new targets and changes nothing else. Answers: ready, in_progress, NOT_MANAGED,
        ABSENT."""
        raise NotImplementedError

    def delete_load_balancer(
        self, call: Call, service: v1.Service
    ) -> v1.LoadBalancerAnswer | Awaitable[v1.LoadBalancerAnswer]:
        """Removes every part of it. Answers: ABSENT, RETAINED, NOT_MANAGED, in_progress."""
        raise NotImplementedError

    def list_load_balancers(self, call: Call) -> Listed[v1.OwnedLoadBalancer]:
        """Everything that this cluster owns; an error discards the list."""
        raise NotImplementedError

    def plan_load_balancer(
        self, call: Call, service: v1.Service, targets: Targets | None
    ) -> Iterable[v1.PlannedChange] | Awaitable[Iterable[v1.PlannedChange]]:
        """The changes that an Ensure, or without targets a Delete, would make. Changes nothing."""
        raise NotImplementedError


def ready(*ips: str, hostnames: Iterable[str] = ()) -> v1.LoadBalancerAnswer:
    """It is as asked for, and reached by these addresses. An update needs none."""
    answer = v1.LoadBalancerAnswer(disposition=v1.LOAD_BALANCER_DISPOSITION_READY)
    _reached(answer, ips, hostnames)
    return answer


def differs(difference: str) -> v1.LoadBalancerAnswer:
    """It works, but an Ensure would change it; the difference is for the log. An answer to get_load_balancer alone."""
    return v1.LoadBalancerAnswer(disposition=v1.LOAD_BALANCER_DISPOSITION_DIFFERS, message=difference)


def in_progress(retry_after: float, *ips: str, hostnames: Iterable[str] = ()) -> v1.LoadBalancerAnswer:
    """The change was accepted: the controller asks again after so many seconds, 1 to 300. Early addresses are
    published."""
    answer = v1.LoadBalancerAnswer(disposition=v1.LOAD_BALANCER_DISPOSITION_IN_PROGRESS)
    answer.retry_after.FromNanoseconds(math.ceil(retry_after * 1e9))
    _reached(answer, ips, hostnames)
    return answer


def _reached(answer: v1.LoadBalancerAnswer, ips: Iterable[str], hostnames: Iterable[str]) -> None:
    for ip in ips:
        answer.status.ingress.add(ip=ip)
    for hostname in hostnames:
        answer.status.ingress.add(hostname=hostname)


# Another controller owns the Service; nothing was touched.
NOT_MANAGED = v1.LoadBalancerAnswer(disposition=v1.LOAD_BALANCER_DISPOSITION_NOT_MANAGED)
# No part of it is left, or there is none to update.
ABSENT = v1.LoadBalancerAnswer(disposition=v1.LOAD_BALANCER_DISPOSITION_ABSENT)
# It is kept on purpose, and the finalizer may go. An answer to delete_load_balancer alone.
RETAINED = v1.LoadBalancerAnswer(disposition=v1.LOAD_BALANCER_DISPOSITION_RETAINED)

_ALWAYS = {v1.LOAD_BALANCER_DISPOSITION_IN_PROGRESS, v1.LOAD_BALANCER_DISPOSITION_NOT_MANAGED}
_READY, _ABSENT = v1.LOAD_BALANCER_DISPOSITION_READY, v1.LOAD_BALANCER_DISPOSITION_ABSENT
DISPOSITIONS = {
    "GetLoadBalancer": {_READY, v1.LOAD_BALANCER_DISPOSITION_DIFFERS, _ABSENT, *_ALWAYS},
    "EnsureLoadBalancer": {_READY, *_ALWAYS},
    "UpdateLoadBalancerNodes": {_READY, _ABSENT, *_ALWAYS},
    "DeleteLoadBalancer": {_ABSENT, v1.LOAD_BALANCER_DISPOSITION_RETAINED, *_ALWAYS},
}


class LoadBalancersRpc:
    """Serves LoadBalancersService: resolves targets, runs one change of a Service at a time, checks answers."""

    def __init__(self, load_balancers: LoadBalancers, node_sets: NodeSets) -> None:
        self.load_balancers, self.node_sets = load_balancers, node_sets
        self.keys = Keys(KEY_PATIENCE, None, load_balancers.capability.max_in_flight)

    async def GetLoadBalancer(self, call: Call, request: v1.GetLoadBalancerRequest) -> v1.GetLoadBalancerResponse:
        """Compares."""
        targets = self.node_sets.resolve(request.targets) if request.HasField("targets") else None
        answer = await self._answer(call, request.service, self.load_balancers.get_load_balancer, targets)
        return v1.GetLoadBalancerResponse(answer=answer)

    async def EnsureLoadBalancer(
        self, call: Call, request: v1.EnsureLoadBalancerRequest
    ) -> v1.EnsureLoadBalancerResponse:
        """Makes or changes."""
        # Now: a later upload does not change the nodes of a call under way.
        targets = self.node_sets.resolve(request.targets)
        if not self._serves(request.service):
            return v1.EnsureLoadBalancerResponse(answer=NOT_MANAGED)
        answer = await self._answer(call, request.service, self.load_balancers.ensure_load_balancer, targets)
        return v1.EnsureLoadBalancerResponse(answer=answer)

    async def UpdateLoadBalancerNodes(
        self, call: Call, request: v1.UpdateLoadBalancerNodesRequest
    ) -> AsyncIterator[v1.UpdateLoadBalancerNodesResponse]:
        """Sends each result when it is there."""
        targets = self.node_sets.resolve(request.targets)
        results = Results(call, v1.UpdateLoadBalancerNodesResponse, type(self.load_balancers).__name__)
        outcomes: asyncio.Queue[tuple[v1.Service, object]] = asyncio.Queue()

        async def update(call: Call, service: v1.Service) -> v1.LoadBalancerAnswer:
            if not self._serves(service):
                return NOT_MANAGED
            return await self._answer(call, service, self.load_balancers.update_load_balancer_nodes, targets)

        most = self.load_balancers.capability.max_in_flight
        concurrency = min(self.load_balancers.concurrency, most) if most else self.load_balancers.concurrency
        work = each(
            call,
            request.items,
            update,
            concurrency=concurrency,
            done=lambda service, outcome: outcomes.put_nowait((service, outcome)),
        )
        call.keep(asyncio.create_task(work))
        for _ in request.items:
            service, outcome = await outcomes.get()
            response = v1.UpdateLoadBalancerNodesResponse()
            results.put(response.results.add(key=service.uid), outcome)
            yield response

    async def DeleteLoadBalancer(
        self, call: Call, request: v1.DeleteLoadBalancerRequest
    ) -> v1.DeleteLoadBalancerResponse:
        """Removes, whatever the class."""
        answer = await self._answer(call, request.service, self.load_balancers.delete_load_balancer)
        return v1.DeleteLoadBalancerResponse(answer=answer)

    def ListLoadBalancers(
        self, call: Call, request: v1.ListLoadBalancersRequest
    ) -> AsyncIterator[v1.ListLoadBalancersResponse]:
        """Sends the list in parts."""
        return pages(call, v1.ListLoadBalancersResponse, self.load_balancers.list_load_balancers)

    async def PlanLoadBalancer(self, call: Call, request: v1.PlanLoadBalancerRequest) -> v1.PlanLoadBalancerResponse:
        """Plans."""
        targets = None
        if request.operation == v1.PLAN_OPERATION_ENSURE:
            targets = self.node_sets.resolve(request.targets)
        elif request.operation != v1.PLAN_OPERATION_DELETE:
            raise Error(Reason.INVALID_REQUEST, "the request names no operation that this provider knows")
        _named(request.service)
        if targets is not None and not self._serves(request.service):
            return v1.PlanLoadBalancerResponse()
        changes = await call.invoke(self.load_balancers.plan_load_balancer, request.service, targets)
        return v1.PlanLoadBalancerResponse(changes=changes)

    def _serves(self, service: v1.Service) -> bool:
        capability = self.load_balancers.capability
        if not service.HasField("load_balancer_class"):
            return not capability.without_default_class
        return service.load_balancer_class in capability.classes

    async def _answer(
        self, call: Call, service: v1.Service, handler: Callable[..., Any], *targets: Targets | None
    ) -> v1.LoadBalancerAnswer:
        _named(service)
        if not call.changes_cloud:
            return _checked(call, handler, await call.invoke(handler, service, *targets))
        async with self.keys.key(call, f"Service {service.uid}"), self.keys.slot(call):
            return _checked(call, handler, await call.invoke(handler, service, *targets))


def _named(service: v1.Service) -> None:
    if not service.uid:
        raise Error(Reason.INVALID_REQUEST, "the request has no Service, or one without a UID")


def _checked(call: Call, handler: Callable[..., Any], answer: object) -> v1.LoadBalancerAnswer:
    """The answer within the contract's limits; a wrong one is an error where its author sees it."""
    if not isinstance(answer, v1.LoadBalancerAnswer):
        raise TypeError(f"{handler.__qualname__} has answered {type(answer).__name__}, and not LoadBalancerAnswer")
    if answer.disposition not in DISPOSITIONS[call.rpc]:
        name = v1.LoadBalancerDisposition.Name(answer.disposition)
        raise ValueError(f"{handler.__qualname__} has answered {name}, which is no answer to {call.rpc}")
    if call.rpc == "EnsureLoadBalancer" and answer.disposition == _READY and not answer.status.ingress:
        raise ValueError(f"{handler.__qualname__} has answered ready without an address")
    checked = v1.LoadBalancerAnswer()
    checked.CopyFrom(answer)
    checked.reason, checked.message = cut(answer.reason, 128), cut(answer.message)
    if checked.HasField("retry_after"):
        seconds = answer.retry_after.ToNanoseconds() / 1e9
        checked.retry_after.FromNanoseconds(int(min(max(seconds, LEAST_RETRY), MOST_RETRY) * 1e9))
    return checked
