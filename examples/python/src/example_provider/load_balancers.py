"""LoadBalancersService: one load balancer for each Service, found by the UIDs in its tags."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

from cloudprovider.v1 import load_balancers_pb2 as pb
from cloudprovider.v1.common_pb2 import (
    CallContext,
    LoadBalancerIngress,
    LoadBalancerStatus,
    Node,
    Service,
)
from cloudprovider.v1.load_balancers_pb2_grpc import LoadBalancersServiceServicer

from .calls import Caller, Changes, Context
from .cloud import Cloud, LoadBalancer, NoAddressError, Spec
from .errors import Refusal
from .node_sets import NodeSets

MOST_SERVICES = 100

ABSENT = pb.LoadBalancerAnswer(disposition=pb.LOAD_BALANCER_DISPOSITION_ABSENT)
NOT_MANAGED = pb.LoadBalancerAnswer(disposition=pb.LOAD_BALANCER_DISPOSITION_NOT_MANAGED)


def ready(lb: LoadBalancer) -> pb.LoadBalancerAnswer:
    return pb.LoadBalancerAnswer(
        disposition=pb.LOAD_BALANCER_DISPOSITION_READY,
        status=LoadBalancerStatus(ingress=[LoadBalancerIngress(ip=lb.address)]),
        identity=pb.LoadBalancerIdentity(id=f"lb-{lb.tags[1]}", name=lb.name),
    )


def targets(nodes: list[Node]) -> frozenset[str]:
    return frozenset(a.address for node in nodes for a in node.addresses if a.type == "InternalIP")


def spec_of(service: Service, ips: frozenset[str]) -> Spec:
    """Refuses everything that this cloud does not have: silence would be taken for success."""
    for port in service.ports:
        if port.protocol not in ("TCP", "UDP"):
            raise Refusal("UNSUPPORTED_PROTOCOL", f"port {port.port}: no {port.protocol}, only TCP and UDP")
    if service.session_affinity == "ClientIP":
        raise Refusal("UNSUPPORTED_FEATURE", "this cloud has no session affinity")
    if service.load_balancer_ip:
        raise Refusal("UNSUPPORTED_FEATURE", "spec.loadBalancerIP: this cloud chooses the address")
    if "IPv6" in service.ip_families and service.ip_family_policy != "PreferDualStack":
        raise Refusal("UNSUPPORTED_FEATURE", "this cloud has IPv4 alone")
    listeners = frozenset((port.protocol, port.port, port.node_port) for port in service.ports)
    ranges = frozenset(service.load_balancer_source_ranges)
    return Spec(listeners, ranges, service.health_check_node_port, ips)


def tags(context: CallContext, service: Service) -> tuple[str, str]:
    if not service.uid:
        raise Refusal("INVALID_REQUEST", "no UID of the Service, which is a tag of its load balancer")
    return context.cluster_uid, service.uid


class LoadBalancers(LoadBalancersServiceServicer):
    """Makes, changes and deletes load balancers, one change for each Service at a time."""

    def __init__(self, cloud: Cloud, node_sets: NodeSets, changes: Changes) -> None:
        self.cloud, self.node_sets, self.changes = cloud, node_sets, changes

    async def GetLoadBalancer(self, request: pb.GetLoadBalancerRequest, context: Context) -> pb.GetLoadBalancerResponse:
        service = request.service
        nodes = self.node_sets.resolve(request.targets) if request.HasField("targets") else []
        if service.HasField("load_balancer_class"):
            return pb.GetLoadBalancerResponse(answer=NOT_MANAGED)
        lb = await self.cloud.find_load_balancer(tags(request.context, service))
        if lb is None:
            return pb.GetLoadBalancerResponse(answer=ABSENT)
        ips = targets(nodes) if request.HasField("targets") else lb.spec.targets
        answer = ready(lb)
        if differences := lb.spec.differences(spec_of(service, ips)):
            answer.disposition = pb.LOAD_BALANCER_DISPOSITION_DIFFERS
            answer.message = f"it has other {' and '.join(differences)}"
        return pb.GetLoadBalancerResponse(answer=answer)

    async def EnsureLoadBalancer(
        self, request: pb.EnsureLoadBalancerRequest, context: Context
    ) -> pb.EnsureLoadBalancerResponse:
        service, key = request.service, tags(request.context, request.service)
        # Now: a later sync does not change the nodes of a call in flight.
        ips = targets(self.node_sets.resolve(request.targets))
        if service.HasField("load_balancer_class"):
            return pb.EnsureLoadBalancerResponse(answer=NOT_MANAGED)
        spec = spec_of(service, ips)

        async def ensure(caller: Caller) -> LoadBalancer:
            lb = await self.cloud.find_load_balancer(key)
            if lb is None:
                # After a restart of this process the Service keeps the address of its status.
                former = next((each.ip for each in service.status.ingress), "")
                name, empty = f"{service.namespace}/{service.name}", replace(spec, targets=frozenset())
                held = set(request.held_addresses.ips)
                caller.check()
                lb = await self.cloud.create_load_balancer(key, name, empty, former, held)
            # Listeners and targets take a call each in this cloud.
            for step in (replace(spec, targets=lb.spec.targets), spec):
                if lb.spec != step:
                    caller.check()
                    await self.cloud.change_load_balancer(lb, step)
            return lb

        try:
            lb = await self.changes.run(service.uid, ensure)
        except NoAddressError as error:
            raise Refusal("QUOTA_EXCEEDED", str(error)) from error
        return pb.EnsureLoadBalancerResponse(answer=ready(lb))

    async def UpdateLoadBalancerNodes(
        self, request: pb.UpdateLoadBalancerNodesRequest, context: Context
    ) -> AsyncIterator[pb.UpdateLoadBalancerNodesResponse]:
        ips = targets(self.node_sets.resolve(request.targets))
        updates = [self._update(tags(request.context, service), service, ips) for service in request.items]
        tasks = [asyncio.create_task(update) for update in updates]
        try:
            for result in asyncio.as_completed(tasks):
                yield pb.UpdateLoadBalancerNodesResponse(results=[await result])
        finally:
            for task in tasks:
                task.cancel()

    async def _update(self, key: tuple[str, str], service: Service, ips: frozenset[str]) -> pb.LoadBalancerResult:
        async def update(caller: Caller) -> pb.LoadBalancerAnswer:
            lb = await self.cloud.find_load_balancer(key)
            if lb is None:
                return ABSENT
            if lb.spec.targets != ips:
                caller.check()
                await self.cloud.change_load_balancer(lb, replace(lb.spec, targets=ips))
            return ready(lb)

        try:
            answer = await self.changes.run(service.uid, update)
        except Refusal as refusal:
            return pb.LoadBalancerResult(key=service.uid, error=refusal.status)
        return pb.LoadBalancerResult(key=service.uid, found=answer)

    async def DeleteLoadBalancer(
        self, request: pb.DeleteLoadBalancerRequest, context: Context
    ) -> pb.DeleteLoadBalancerResponse:
        key = tags(request.context, request.service)

        async def delete(caller: Caller) -> None:
            if lb := await self.cloud.find_load_balancer(key):
                caller.check()
                await self.cloud.delete_load_balancer(lb)

        await self.changes.run(request.service.uid, delete)
        return pb.DeleteLoadBalancerResponse(answer=ABSENT)
