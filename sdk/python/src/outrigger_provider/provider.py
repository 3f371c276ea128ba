"""A cloud, ready to be served."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from . import v1
from .call import implements
from .instances import Instances
from .load_balancers import LoadBalancers
from .routes import Routes
from .volumes import Volumes


@dataclass
class Provider:
    """A cloud. A capability is offered exactly when its service is set; nothing changes once it is served. The
    controller refuses a declaration that is not legal, and says why."""

    # 1 to 63 of a-z, 0-9 and '-', and never another: the controller refuses one.
    name: str
    # For logs and metrics.
    version: str
    instances: Instances | None = None
    # The node set is served with them.
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
        if self.load_balancers:
            offered.node_sets.SetInParent()
            offered.load_balancers.CopyFrom(self.load_balancers.capability)
            offered.load_balancers.list = implements(self.load_balancers, LoadBalancers, "list_load_balancers")
            offered.load_balancers.plan = implements(self.load_balancers, LoadBalancers, "plan_load_balancer")
        if self.routes:
            offered.routes.CopyFrom(self.routes.capability)
        if self.volumes:
            offered.volumes.CopyFrom(self.volumes.capability)
        return offered
