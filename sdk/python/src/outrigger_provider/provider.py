"""A cloud, ready to be served."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from google.protobuf.message import Message

from . import v1
from .call import implements
from .instances import Instances
from .load_balancers import LoadBalancers
from .routes import Routes
from .volumes import Volumes

DEFAULT_BATCH = 100


class ProviderError(Exception):
    """The provider cannot be served as its author declares it."""


@dataclass
class Provider:
    """A cloud. A capability is offered exactly when its service is set; nothing changes once it is served."""

    # 1 to 63 of a-z, 0-9 and '-', and never another: the controller refuses one.
    name: str
    # For logs and metrics.
    version: str
    instances: Instances | None = None
    # Node sets are served with them.
    load_balancers: LoadBalancers | None = None
    routes: Routes | None = None
    volumes: Volumes | None = None
    # The cloud has no cluster ID that separates the resources of two clusters, or resources are left untagged. The
    # controller then refuses to run without --allow-untagged-cloud. Otherwise a call about load balancers or routes
    # whose cluster has no UID is refused.
    without_cluster_id: bool = False
    # Prefixes of the annotations that the provider reads: they alone are sent, and cause a call by a change. Empty:
    # all.
    service_annotation_prefixes: Sequence[str] = ()
    # Empty: none. "*": all.
    node_annotation_prefixes: Sequence[str] = ()
    # Limits of the cloud; the controller stays below.
    rate_limits: Sequence[v1.RateLimit] = ()
    # Effects that answers may have in Kubernetes.
    effects: v1.EffectsCapability | None = None
    # How the provider and its cloud are, from what is known: it is asked every 10 s and by each probe, must not wait,
    # and the server fills in the boot ID. With None it is always ready. Dependencies.status can be it.
    status: Callable[[], v1.GetStatusResponse] | None = None
    # The largest message that is accepted, in bytes.
    max_message_bytes: int = 4 << 20
    # Handlers that are `def` and not `async def` run in so many threads at most.
    threads: int = 32

    def capabilities(self) -> v1.Capabilities:
        """The capabilities that are offered, with what follows from the methods that there are."""
        offered = v1.Capabilities(effects=self.effects)
        if self.instances:
            offered.instances.CopyFrom(self.instances.capability)
            offered.instances.list = implements(self.instances, Instances, "list_instances")
            offered.instances.max_batch_size = offered.instances.max_batch_size or DEFAULT_BATCH
        if self.load_balancers:
            offered.node_sets.deltas = True
            offered.load_balancers.CopyFrom(self.load_balancers.capability)
            offered.load_balancers.list = implements(self.load_balancers, LoadBalancers, "list_load_balancers")
            offered.load_balancers.plan = implements(self.load_balancers, LoadBalancers, "plan_load_balancer")
            services = offered.load_balancers.max_services_per_update
            offered.load_balancers.max_services_per_update = services or DEFAULT_BATCH
        if self.routes:
            offered.routes.CopyFrom(self.routes.capability)
            offered.routes.max_batch_size = offered.routes.max_batch_size or DEFAULT_BATCH
        if self.volumes:
            offered.volumes.CopyFrom(self.volumes.capability)
            offered.volumes.max_batch_size = offered.volumes.max_batch_size or DEFAULT_BATCH
        return offered

    def check(self) -> v1.Capabilities:
        """The capabilities. A declaration that the controller would refuse is refused here: its author sees it."""
        if not re.fullmatch("[a-z0-9-]{1,63}", self.name):
            raise ProviderError(f"the name {self.name!r} is not legal: use 1 to 63 of a-z, 0-9 and '-'")
        for service, base, pairs in (
            (self.instances, Instances, [("get_instance", "get_instances")]),
            (self.routes, Routes, [("create_route", "create_routes"), ("delete_route", "delete_routes")]),
            (self.volumes, Volumes, [("get_volume", "get_volumes")]),
        ):
            for one, many in pairs:
                if service and not implements(service, base, one) and not implements(service, base, many):
                    raise ProviderError(f"{type(service).__name__} has neither {one} nor {many}: implement one of them")
        if not 1 << 20 <= self.max_message_bytes < 1 << 31:
            raise ProviderError(f"max_message_bytes is {self.max_message_bytes}: use 1 MiB to 2 GiB")
        offered = self.capabilities()
        for field, most in (
            ("instances.max_batch_size", 500),
            ("load_balancers.max_services_per_update", 200),
            ("load_balancers.max_in_flight", 256),
            ("routes.max_batch_size", 500),
            ("routes.max_in_flight", 64),
            ("volumes.max_batch_size", 500),
            ("volumes.max_in_flight", 64),
        ):
            if (value := _field(offered, field)) > most:
                raise ProviderError(f"{field} is {value}: use at most {most}")
        balancers = offered.load_balancers
        if balancers.without_default_class and not balancers.classes:
            raise ProviderError("load_balancers.without_default_class without classes serves no Service at all")
        if (size := len(balancers.configuration_revision.encode())) > 64:
            raise ProviderError(f"load_balancers.configuration_revision has {size} bytes: use at most 64")
        for field, entries in (
            ("instances.provider_id_prefixes", offered.instances.provider_id_prefixes),
            ("instances.managed_label_keys", offered.instances.managed_label_keys),
            ("load_balancers.classes", balancers.classes),
            ("volumes.csi_drivers", offered.volumes.csi_drivers),
            ("service_annotation_prefixes", self.service_annotation_prefixes),
            ("node_annotation_prefixes", self.node_annotation_prefixes),
        ):
            if len(entries) > 64:
                raise ProviderError(f"{field} has {len(entries)} entries: use at most 64")
            for entry in entries:
                if not re.fullmatch("[!-~]{1,253}", entry):
                    raise ProviderError(f"{field} has {entry!r}: use 1 to 253 visible ASCII characters")
        return offered


def _field(message: Message, path: str) -> int:
    outer, inner = path.split(".")
    value: int = getattr(getattr(message, outer), inner)
    return value
