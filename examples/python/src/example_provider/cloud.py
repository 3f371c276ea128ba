"""The cloud: one account, in the memory of this process. Its async methods are calls of its API."""

import asyncio
import hashlib
import json
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from itertools import chain
from pathlib import Path

from outrigger_provider import Dependencies, Error, Reason

POOLS = {"IPv4": ip_network("198.18.0.0/15"), "IPv6": ip_network("2001:db8::/64")}
STATES = {"locked": Reason.CREDENTIALS_INVALID, "limited": Reason.RATE_LIMITED, "off": Reason.CLOUD_UNAVAILABLE}


@dataclass(frozen=True)
class Instance:
    """A machine of the cloud."""

    id: str
    name: str
    address: str
    running: bool

    @staticmethod
    def named(text: str) -> "Instance":
        """The same ID and address for a name in each process: this cloud has no other memory. NAME=off is stopped."""
        name, _, power = text.partition("=")
        seed = hashlib.sha256(name.encode()).digest()
        return Instance(f"i-{seed.hex()[:12]}", name, f"10.{seed[0]}.{seed[1]}.{seed[2]}", power != "off")


@dataclass(frozen=True)
class Spec:
    """The specification of a load balancer."""

    listeners: frozenset[tuple[str, int, int]]
    source_ranges: frozenset[str]
    health_check_port: int
    proxy_protocol: bool
    families: tuple[str, ...]
    targets: frozenset[str]


@dataclass
class LoadBalancer:
    """A load balancer, found by its tags: the UIDs of the cluster and of the Service."""

    tags: tuple[str, str]
    name: str
    spec: Spec
    addresses: list[str] = field(default_factory=list)


@dataclass
class Cloud:
    """The account of this process."""

    latency: float = 0.0
    # A lookup by name makes the instance: for tests and demos.
    synthesize: bool = False
    # A file that switches the API: off, hangs, limited or locked. Beside it stand the numbers of calls and changes.
    switch: Path | None = None
    # For so many load balancers.
    room: int = 1000
    instances: dict[str, Instance] = field(default_factory=dict)
    load_balancers: dict[tuple[str, str], LoadBalancer] = field(default_factory=dict)
    calls: int = 0
    changes: int = 0
    health: Dependencies = field(default_factory=lambda: Dependencies("cloud-api", "credentials"))

    def __post_init__(self) -> None:
        self.note()

    def note(self) -> None:
        """Shows beside the switch what there is, for those that look at the cloud from outside."""
        if self.switch:
            shown = [vars(lb) | {"spec": vars(lb.spec)} for lb in self.load_balancers.values()]
            self.switch.with_suffix(".state").write_text(json.dumps(shown, default=sorted))

    def state(self) -> str:
        return self.switch.read_text().strip() if self.switch and self.switch.exists() else ""

    async def call(self, *, changes: bool = False) -> None:
        """The way to the cloud's API and back."""
        self.calls, self.changes = self.calls + 1, self.changes + changes
        if self.switch:
            self.switch.with_suffix(".counts").write_text(f"calls {self.calls}\nchanges {self.changes}\n")
        await asyncio.sleep(self.latency)
        while (state := self.state()) == "hangs":  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        if reason := STATES.get(state):
            self.health.fails("credentials" if state == "locked" else "cloud-api", f"the API is {state}")
            raise Error(reason, f"the API is {state}")
        self.health.works("cloud-api", "credentials")

    async def describe_instances(self, names: list[str]) -> dict[str, Instance]:
        """All instances by ID; `names` are those that the caller looks for."""
        await self.call()
        for instance in map(Instance.named, names if self.synthesize else ()):
            self.instances.setdefault(instance.id, instance)
        return dict(self.instances)

    async def describe_load_balancers(self, cluster: str, service: str = "") -> list[LoadBalancer]:
        """Those of a cluster, or of a Service of it."""
        await self.call()
        tags = (cluster, service)
        return [lb for lb in self.load_balancers.values() if tags in (lb.tags, (lb.tags[0], ""))]

    async def create_load_balancer(self, lb: LoadBalancer, preferred: list[str]) -> None:
        """It has its tags from the first moment; `preferred` are addresses that it gets if they are free."""
        await self.call(changes=True)
        if len(self.load_balancers) >= self.room:
            raise Error(Reason.QUOTA_EXCEEDED, f"the account has room for {self.room} load balancers")
        taken = {ip for other in self.load_balancers.values() for ip in other.addresses}
        for pool in map(POOLS.__getitem__, lb.spec.families):
            own = [ip for ip in preferred if ip_address(ip) in pool]
            lb.addresses.append(next(ip for ip in chain(own, map(str, pool.hosts())) if ip not in taken))
        self.load_balancers[lb.tags] = lb
        self.note()

    async def change_load_balancer(self, lb: LoadBalancer, spec: Spec) -> None:
        await self.call(changes=True)
        lb.spec = spec
        self.note()

    async def delete_load_balancer(self, lb: LoadBalancer) -> None:
        await self.call(changes=True)
        self.load_balancers.pop(lb.tags, None)
        self.note()
