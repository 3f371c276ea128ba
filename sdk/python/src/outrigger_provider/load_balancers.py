"""Makes and removes the load balancers of Services: the methods that an author writes, and how LoadBalancersService
calls them."""

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, TypeAlias

from . import v1
from .call import Call
from .errors import Error, Reason
from .keys import Keys
from .lists import Listed, pages
from .node_sets import NodeSets, Targets

# Another controller owns the Service; nothing was touched.
NOT_MANAGED = v1.LOAD_BALANCER_DISPOSITION_NOT_MANAGED
# No part of it is left, or there is none to update.
ABSENT = v1.LOAD_BALANCER_DISPOSITION_ABSENT
# It is kept on purpose, and the finalizer may go. An answer to delete_load_balancer alone.
RETAINED = v1.LOAD_BALANCER_DISPOSITION_RETAINED

# An answer with nothing beside it is one of these three; others are messages.
Answer: TypeAlias = v1.LoadBalancerAnswer | v1.LoadBalancerDisposition.ValueType


class LoadBalancers:
    """The key is Service.uid. Tag with it and with call.cluster.uid, in the cloud call that creates: an answer may be
    lost. Each method carries the whole desired state and may be repeated.

    One change of a Service runs at a time, also while a handler outlives its caller. A handler of a change is not
    cancelled when its caller goes away: ask call.check() between two changes of the cloud. It has 30 s to end. Each
    method may be `async def`, or `def` to run in a thread. list_load_balancers and plan_load_balancer are optional.
    """

    # The server fills in `list` and `plan`. max_in_flight is 1 for code that was written for one at a time.
    capability = v1.LoadBalancersCapability()

    def get_load_balancer(self, call: Call, service: v1.Service, targets: Targets | None) -> Answer | Awaitable[Answer]:
        """Compares the load balancer with the Service and, unless they are None, with the targets. Changes nothing.
        Answers: ready, differs, in_progress, NOT_MANAGED, ABSENT."""
        raise NotImplementedError

    def ensure_load_balancer(self, call: Call, service: v1.Service, targets: Targets) -> Answer | Awaitable[Answer]:
        """Makes the load balancer what the Service and its targets ask for; no targets are legal. Answers: ready,
        in_progress, NOT_MANAGED."""
        raise NotImplementedError

    def update_load_balancer_nodes(
        self, call: Call, service: v1.Service, targets: Targets
    ) -> Answer | Awaitable[Answer]:
        """Gives one load balancer new targets and changes nothing else. Answers: ready, in_progress, NOT_MANAGED,
        ABSENT."""
        raise NotImplementedError

    def delete_load_balancer(self, call: Call, service: v1.Service) -> Answer | Awaitable[Answer]:
        """Removes every part of it. Answers: ABSENT, RETAINED, NOT_MANAGED, in_progress. ABSENT says that no part is
        left; a list that lags behind the cloud's creations does not: look by call.identity too."""
        raise NotImplementedError

    def list_load_balancers(self, call: Call) -> Listed[v1.OwnedLoadBalancer]:
        """Everything that this cluster owns; an error discards the list."""
        raise NotImplementedError

    def plan_load_balancer(
        self, call: Call, service: v1.Service, targets: Targets | None
    ) -> Iterable[v1.PlannedChange] | Awaitable[Iterable[v1.PlannedChange]]:
        """The changes that an Ensure, or without targets a Delete, would make. Changes nothing."""
        raise NotImplementedError


def ready(
    *ips: str, hostnames: Iterable[str] = (), identity: v1.LoadBalancerIdentity | None = None
) -> v1.LoadBalancerAnswer:
    """It is as asked for, and reached by these addresses. An update needs none. The controller hands the identity back
    as call.identity."""
    return _reached(v1.LOAD_BALANCER_DISPOSITION_READY, ips, hostnames, identity)


def differs(difference: str) -> v1.LoadBalancerAnswer:
    """It works, but an Ensure would change it; the difference is for the log. An answer to get_load_balancer alone."""
    return v1.LoadBalancerAnswer(disposition=v1.LOAD_BALANCER_DISPOSITION_DIFFERS, message=difference)


def in_progress(
    retry_after: float,
    *ips: str,
    hostnames: Iterable[str] = (),
    identity: v1.LoadBalancerIdentity | None = None,
) -> v1.LoadBalancerAnswer:
    """The change was accepted: the controller asks again after so many seconds, 1 to 300. Early addresses are
    published."""
    answer = _reached(v1.LOAD_BALANCER_DISPOSITION_IN_PROGRESS, ips, hostnames, identity)
    answer.retry_after.FromNanoseconds(math.ceil(retry_after * 1e9))
    return answer


def _reached(
    disposition: v1.LoadBalancerDisposition.ValueType,
    ips: Iterable[str],
    hostnames: Iterable[str],
    identity: v1.LoadBalancerIdentity | None,
) -> v1.LoadBalancerAnswer:
    points = [v1.LoadBalancerIngress(ip=ip) for ip in ips]
    points += [v1.LoadBalancerIngress(hostname=hostname) for hostname in hostnames]
    status = v1.LoadBalancerStatus(ingress=points)
    return v1.LoadBalancerAnswer(disposition=disposition, status=status, identity=identity)


class LoadBalancersRpc:
    """Serves LoadBalancersService: resolves targets, and runs one change of a Service at a time."""

    def __init__(self, load_balancers: LoadBalancers, node_sets: NodeSets) -> None:
        self.load_balancers, self.node_sets = load_balancers, node_sets
        self.keys = Keys(load_balancers.capability.max_in_flight)

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
            return v1.EnsureLoadBalancerResponse(answer=v1.LoadBalancerAnswer(disposition=NOT_MANAGED))
        answer = await self._change(call, request.service, self.load_balancers.ensure_load_balancer, targets)
        return v1.EnsureLoadBalancerResponse(answer=answer)

    async def UpdateLoadBalancerNodes(
        self, call: Call, request: v1.UpdateLoadBalancerNodesRequest
    ) -> v1.UpdateLoadBalancerNodesResponse:
        """Gives it new targets."""
        targets = self.node_sets.resolve(request.targets)
        answer = await self._change(call, request.service, self.load_balancers.update_load_balancer_nodes, targets)
        return v1.UpdateLoadBalancerNodesResponse(answer=answer)

    async def DeleteLoadBalancer(
        self, call: Call, request: v1.DeleteLoadBalancerRequest
    ) -> v1.DeleteLoadBalancerResponse:
        """Removes, whatever the class."""
        answer = await self._change(call, request.service, self.load_balancers.delete_load_balancer)
        return v1.DeleteLoadBalancerResponse(answer=answer)

    def ListLoadBalancers(
        self, call: Call, request: v1.ListLoadBalancersRequest
    ) -> AsyncIterator[v1.ListLoadBalancersResponse]:
        """Sends the list in parts."""
        return pages(call, v1.ListLoadBalancersResponse, self.load_balancers.list_load_balancers)

    async def PlanLoadBalancer(self, call: Call, request: v1.PlanLoadBalancerRequest) -> v1.PlanLoadBalancerResponse:
        """Plans."""
        if request.operation not in (v1.PLAN_OPERATION_ENSURE, v1.PLAN_OPERATION_DELETE):
            raise Error(Reason.INVALID_REQUEST, "the request names no operation that this provider knows")
        is_ensure = request.operation == v1.PLAN_OPERATION_ENSURE
        targets = self.node_sets.resolve(request.targets) if is_ensure else None
        changes = await call.invoke(self.load_balancers.plan_load_balancer, request.service, targets)
        return v1.PlanLoadBalancerResponse(changes=changes)

    def _serves(self, service: v1.Service) -> bool:
        capability = self.load_balancers.capability
        if not service.HasField("load_balancer_class"):
            return not capability.without_default_class
        return service.load_balancer_class in capability.classes

    async def _change(
        self, call: Call, service: v1.Service, handler: Callable[..., Any], *targets: Targets
    ) -> v1.LoadBalancerAnswer:
        async with self.keys.held(call, f"Service {service.uid}"):
            return await self._answer(call, service, handler, *targets)

    async def _answer(
        self, call: Call, service: v1.Service, handler: Callable[..., Any], *targets: Targets | None
    ) -> v1.LoadBalancerAnswer:
        if not service.uid:
            raise Error(Reason.INVALID_REQUEST, "the request has no Service, or one without a UID")
        answer: Answer = await call.invoke(handler, service, *targets)
        return v1.LoadBalancerAnswer(disposition=answer) if isinstance(answer, int) else answer
