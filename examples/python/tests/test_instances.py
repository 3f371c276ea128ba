"""Lookups and the list of instances."""

from conftest import CONTEXT, Provider
from errors import details

from cloudprovider.v1.common_pb2 import ABSENCE_CERTAINTY_CONFIRMED, Node
from cloudprovider.v1.instances_pb2 import POWER_STATE_RUNNING, BatchGetInstancesRequest, ListInstancesRequest
from example_provider.cloud import Instance


async def test_each_node_of_a_batch_has_its_own_result(provider: Provider) -> None:
    there = Instance.named("there")
    provider.cloud.instances[there.id] = there
    nodes = [
        Node(name="there"),
        Node(name="by-id", provider_id=f"example://{there.id}"),
        Node(name="gone", provider_id="example://i-000000000000"),
        Node(name="malformed", provider_id="example://nonsense"),
        Node(name="foreign", provider_id="aws:///eu-1a/i-1"),
    ]
    answer = await provider.instances.BatchGetInstances(BatchGetInstancesRequest(context=CONTEXT, items=nodes))
    results = {result.key: result for result in answer.results}
    assert len(results) == len(answer.results) == len(nodes)
    instance = results["there"].found
    assert instance.provider_id == f"example://{there.id}"
    assert instance.power_state == POWER_STATE_RUNNING
    assert [address.type for address in instance.addresses] == ["InternalIP", "Hostname"]
    assert results["by-id"].found == instance
    assert results["gone"].absent.certainty == ABSENCE_CERTAINTY_CONFIRMED
    assert details(results["malformed"].error) == ("MALFORMED_PROVIDER_ID", None)
    assert results["foreign"].WhichOneof("outcome") == "not_managed"


async def test_a_long_list_comes_in_parts_and_only_the_last_is_complete(provider: Provider) -> None:
    for instance in (Instance.named(f"node-{number}") for number in range(2500)):
        provider.cloud.instances[instance.id] = instance
    request = ListInstancesRequest(context=CONTEXT)
    parts = [part async for part in provider.instances.ListInstances(request)]
    assert [part.complete for part in parts] == [False] * (len(parts) - 1) + [True]
    assert len({each.provider_id for part in parts for each in part.items}) == 2500
    assert all(part.ByteSize() < 1 << 20 for part in parts)
