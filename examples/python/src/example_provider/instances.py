"""The machines of the cloud."""

import re
from collections.abc import AsyncIterator, Sequence

from outrigger_provider import Call, Error, Instances, Lookup, Query, Reason, absent, not_managed, v1

from .cloud import Cloud, Instance

SCHEME = "example://"


class Machines(Instances):
    """Looks machines up in one call of the cloud for a whole batch."""

    capability = v1.InstancesCapability(lookup_preference=v1.LOOKUP_PREFERENCE_BATCH)

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud

    async def get_instances(self, call: Call, nodes: Sequence[v1.Node], query: Query) -> dict[str, Lookup]:
        by_id = await self.cloud.describe_instances([node.name for node in nodes if not node.provider_id])
        by_name = {instance.name: instance for instance in by_id.values()}
        return {node.name: look_up(node, by_id, by_name) for node in nodes}

    async def list_instances(self, call: Call, query: Query) -> AsyncIterator[v1.Instance]:
        for instance in (await self.cloud.describe_instances([])).values():
            yield described(instance)


def look_up(node: v1.Node, by_id: dict[str, Instance], by_name: dict[str, Instance]) -> Lookup:
    id_ = node.provider_id.removeprefix(SCHEME)
    if node.provider_id and not node.provider_id.startswith(SCHEME):
        return not_managed(f"{node.provider_id!r} does not start with {SCHEME}")
    if node.provider_id and not re.fullmatch(r"i-[0-9a-f]{12}", id_):
        return Error(Reason.MALFORMED_PROVIDER_ID, f"{node.provider_id!r} has no ID such as i-0123456789ab")
    if instance := by_id.get(id_) if id_ else by_name.get(node.name):
        return described(instance)
    # True since the cloud was asked during this call and shows every instance. A cache, or a cloud that shows young
    # instances late, answers not_visible_yet().
    return absent()


def described(instance: Instance) -> v1.Instance:
    state = v1.POWER_STATE_RUNNING if instance.running else v1.POWER_STATE_SHUTDOWN
    machine = v1.Instance(provider_id=SCHEME + instance.id, node_name=instance.name, power_state=state)
    machine.instance_type, machine.zone, machine.region = "small", "zone-1", "region-1"
    machine.addresses.add(type="InternalIP", address=instance.address)
    machine.addresses.add(type="Hostname", address=instance.name)
    return machine
