"""One load balancer for each Service, found by the UIDs in its tags."""

from collections.abc import AsyncIterator
from dataclasses import replace
from uuid import uuid4

from outrigger_provider import ABSENT, Call, Error, LoadBalancers, Reason, Targets, differs, ready, v1
from outrigger_provider.v1 import LoadBalancerAnswer as Answer, Service

from .cloud import Cloud, LoadBalancer, Spec

PREFIX = "example.outrigger.dev/"
PROXY_PROTOCOL = PREFIX + "proxy-protocol"


class Balancers(LoadBalancers):
    """Makes, changes and deletes load balancers."""

    # This cloud is lost with the process: another one has all ensured.
    capability = v1.LoadBalancersCapability(configuration_revision=str(uuid4()))

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud

    async def find(self, call: Call, service: Service) -> LoadBalancer | None:
        return next(iter(await self.cloud.describe_load_balancers(call.cluster.uid, service.uid)), None)

    async def changed(self, call: Call, lb: LoadBalancer, *steps: Spec) -> Answer:
        for step in steps:
            if lb.spec != step:
                call.check()
                await self.cloud.change_load_balancer(lb, step)
        return ready(*lb.addresses)

    async def get_load_balancer(self, call: Call, service: Service, targets: Targets | None) -> Answer:
        if (lb := await self.find(call, service)) is None:
            return ABSENT
        spec = spec_of(service, lb.spec.targets if targets is None else frozenset(targets.addresses()))
        differences = [name for name, value in vars(spec).items() if value != vars(lb.spec)[name]]
        return differs(f"it has other {' and '.join(differences)}") if differences else ready(*lb.addresses)

    async def ensure_load_balancer(self, call: Call, service: Service, targets: Targets) -> Answer:
        spec = spec_of(service, frozenset(targets.addresses()))
        if (lb := await self.find(call, service)) is None:
            empty = replace(spec, targets=frozenset())
            lb = LoadBalancer((call.cluster.uid, service.uid), f"{service.namespace}/{service.name}", empty)
            # After a restart of this process the Service keeps the addresses of its status.
            former = [each.ip for each in service.status.ingress if each.ip]
            call.check()
            await self.cloud.create_load_balancer(lb, former)
        if lb.spec.families != spec.families:
            raise Error(Reason.UNSUPPORTED_FEATURE, "this cloud cannot change the IP families of a load balancer")
        # Listeners and targets take a call each in this cloud.
        return await self.changed(call, lb, replace(spec, targets=lb.spec.targets), spec)

    async def update_load_balancer_nodes(self, call: Call, service: Service, targets: Targets) -> Answer:
        if (lb := await self.find(call, service)) is None:
            return ABSENT
        return await self.changed(call, lb, replace(lb.spec, targets=frozenset(targets.addresses())))

    async def delete_load_balancer(self, call: Call, service: Service) -> Answer:
        if lb := await self.find(call, service):
            call.check()
            await self.cloud.delete_load_balancer(lb)
        return ABSENT

    async def list_load_balancers(self, call: Call) -> AsyncIterator[v1.OwnedLoadBalancer]:
        for lb in await self.cloud.describe_load_balancers(call.cluster.uid):
            service, status = v1.ServiceRef(uid=lb.tags[1]), ready(*lb.addresses).status
            yield v1.OwnedLoadBalancer(service=service, status=status)


def spec_of(service: Service, ips: frozenset[str]) -> Spec:
    """Refuses everything that this cloud does not have: silence would be taken for success."""
    for port in service.ports:
        if port.protocol not in ("TCP", "UDP"):
            raise Error(Reason.UNSUPPORTED_PROTOCOL, f"port {port.port}: no {port.protocol}, only TCP and UDP")
    if service.session_affinity == "ClientIP" or service.load_balancer_ip:
        raise Error(Reason.UNSUPPORTED_FEATURE, "this cloud has no session affinity and no choice of addresses")
    proxy = service.annotations.get(PROXY_PROTOCOL, "false")
    if proxy not in ("true", "false"):
        raise Error(Reason.INVALID_ANNOTATION, f"{PROXY_PROTOCOL} is {proxy!r}: write true or false")
    listeners = frozenset((port.protocol, port.port, port.node_port) for port in service.ports)
    ranges, families = frozenset(service.load_balancer_source_ranges), tuple(service.ip_families) or ("IPv4",)
    return Spec(listeners, ranges, service.health_check_node_port, proxy == "true", families, ips)
