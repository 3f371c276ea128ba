"""InstancesService: the machines of the cloud."""

import re
from collections.abc import AsyncIterator

from cloudprovider.v1 import instances_pb2 as pb
from cloudprovider.v1.common_pb2 import ABSENCE_CERTAINTY_CONFIRMED, Node, NodeAddress
from cloudprovider.v1.instances_pb2_grpc import InstancesServiceServicer

from .calls import Context
from .cloud import Cloud, Instance
from .errors import Refusal

SCHEME = "example://"
MOST_NODES = 100
# An instance has some 250 bytes, so that a message stays far below the 4 MiB that any controller takes.
PAGE = 1000


class Instances(InstancesServiceServicer):
    """Looks machines up in one call of the cloud for a whole batch."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud

    async def BatchGetInstances(
        self, request: pb.BatchGetInstancesRequest, context: Context
    ) -> pb.BatchGetInstancesResponse:
        names = [node.name for node in request.items if not node.provider_id]
        by_id = await self.cloud.describe_instances(names)
        by_name = {instance.name: instance for instance in by_id.values()}
        results = [self._result(node, by_id, by_name) for node in request.items]
        return pb.BatchGetInstancesResponse(results=results)

    def _result(self, node: Node, by_id: dict[str, Instance], by_name: dict[str, Instance]) -> pb.InstanceResult:
        result = pb.InstanceResult(key=node.name)
        id_ = node.provider_id.removeprefix(SCHEME)
        if node.provider_id and not node.provider_id.startswith(SCHEME):
            result.not_managed.reason = f"{node.provider_id!r} does not start with {SCHEME}"
        elif node.provider_id and not re.fullmatch(r"i-[0-9a-f]{12}", id_):
            refusal = Refusal("MALFORMED_PROVIDER_ID", f"{node.provider_id!r} has no id such as i-0123456789ab")
            result.error.CopyFrom(refusal.status)
        elif instance := by_id.get(id_) if id_ else by_name.get(node.name):
            result.found.CopyFrom(described(instance))
        else:
            # True since the cloud was asked during this call and shows every instance. A cache, or a
            # cloud that shows young instances late, says NOT_VISIBLE_YET.
            result.absent.certainty = ABSENCE_CERTAINTY_CONFIRMED
        return result

    async def ListInstances(
        self, request: pb.ListInstancesRequest, context: Context
    ) -> AsyncIterator[pb.ListInstancesResponse]:
        instances = [described(instance) for instance in (await self.cloud.describe_instances([])).values()]
        for start in range(0, len(instances), PAGE):
            yield pb.ListInstancesResponse(items=instances[start : start + PAGE])
        yield pb.ListInstancesResponse(complete=True)


def described(instance: Instance) -> pb.Instance:
    addresses = {"InternalIP": instance.address, "Hostname": instance.name}
    return pb.Instance(
        provider_id=SCHEME + instance.id,
        node_name=instance.name,
        instance_type="small",
        addresses=[NodeAddress(type=type_, address=text) for type_, text in addresses.items()],
        zone="zone-1",
        region="region-1",
        power_state=pb.POWER_STATE_RUNNING if instance.running else pb.POWER_STATE_SHUTDOWN,
    )
