"""The cloud: one account, in the memory of this process. Its async methods are calls of its API."""

import asyncio
import hashlib
from dataclasses import dataclass, field, fields
from ipaddress import ip_address, ip_network

POOL = ip_network("198.18.0.0/15")


class NoAddressError(Exception):
    """All addresses of the pool are in use."""


@dataclass(frozen=True)
class Instance:
    """A machine of the cloud."""

    id: str
    name: str
    address: str
    running: bool = True

    @staticmethod
    def named(name: str, running: bool = True) -> "Instance":
        """The same id and address for a name in each process: this cloud has no other memory."""
        seed = hashlib.sha256(name.encode()).digest()
        return Instance(f"i-{seed.hex()[:12]}", name, f"10.{seed[0]}.{seed[1]}.{seed[2]}", running)


@dataclass(frozen=True)
class Spec:
    """The specification of a load balancer."""

    listeners: frozenset[tuple[str, int, int]]
    source_ranges: frozenset[str]
    health_check_port: int
    targets: frozenset[str]

    def differences(self, other: "Spec") -> list[str]:
        return [f.name for f in fields(self) if getattr(self, f.name) != getattr(other, f.name)]


@dataclass
class LoadBalancer:
    """A load balancer, found by its tags."""

    tags: tuple[str, str]
    name: str
    spec: Spec
    address: str


@dataclass
class Cloud:
    """The account of this process."""

    latency: float = 0.0
    # A lookup by name makes the instance: for tests and demos.
    synthesize: bool = False
    instances: dict[str, Instance] = field(default_factory=dict)
    load_balancers: dict[tuple[str, str], LoadBalancer] = field(default_factory=dict)

    async def call(self) -> None:
        """The way to the cloud's API and back."""
        await asyncio.sleep(self.latency)

    async def describe_instances(self, names: list[str]) -> dict[str, Instance]:
        """All instances by id; `names` are those that the caller looks for."""
        await self.call()
        for instance in map(Instance.named, names if self.synthesize else ()):
            self.instances.setdefault(instance.id, instance)
        return dict(self.instances)

    async def find_load_balancer(self, tags: tuple[str, str]) -> LoadBalancer | None:
        await self.call()
        return self.load_balancers.get(tags)

    async def create_load_balancer(
        self, tags: tuple[str, str], name: str, spec: Spec, preferred: str, avoid: set[str]
    ) -> LoadBalancer:
        """It has its tags from the first moment; `preferred` is an address that it gets if that is free."""
        await self.call()
        taken = avoid | {lb.address for lb in self.load_balancers.values()}
        if not preferred or preferred in taken or ip_address(preferred) not in POOL:
            preferred = next((str(ip) for ip in POOL.hosts() if str(ip) not in taken), "")
        if not preferred:
            raise NoAddressError(f"all addresses of {POOL} are in use")
        self.load_balancers[tags] = LoadBalancer(tags, name, spec, preferred)
        return self.load_balancers[tags]

    async def change_load_balancer(self, lb: LoadBalancer, spec: Spec) -> None:
        await self.call()
        lb.spec = spec

    async def delete_load_balancer(self, lb: LoadBalancer) -> None:
        await self.call()
        self.load_balancers.pop(lb.tags, None)
