"""Lookups and the list of instances."""

from conftest import SteppedCloud
from errors import reason_in, reason_of
from outrigger_provider import v1
from outrigger_provider.testing import Client

from example_provider.cloud import Instance


async def test_each_node_of_a_batch_has_its_own_result(client: Client, cloud: SteppedCloud) -> None:
    there = Instance.named("there")
    cloud.instances[there.id] = there
    nodes = [
        v1.Node(name="there"),
        v1.Node(name="by-id", provider_id=f"example://{there.id}"),
        v1.Node(name="gone", provider_id="example://i-000000000000"),
        v1.Node(name="malformed", provider_id="example://nonsense"),
        v1.Node(name="foreign", provider_id="aws:///eu-1a/i-1"),
    ]
    answer = await client.call("BatchGetInstances", v1.BatchGetInstancesRequest(items=nodes))
    results = {result.key: result for result in answer.results}
    assert len(results) == len(answer.results) == len(nodes)
    instance = results["there"].found
    assert instance.provider_id == f"example://{there.id}"
    assert instance.power_state == v1.POWER_STATE_RUNNING
    assert [address.type for address in instance.addresses] == ["InternalIP", "Hostname"]
    assert results["by-id"].found == instance
    assert results["gone"].absent.certainty == v1.ABSENCE_CERTAINTY_CONFIRMED
    assert reason_in(results["malformed"].error) == "MALFORMED_PROVIDER_ID"
    assert results["foreign"].WhichOneof("outcome") == "not_managed"


async def test_all_instances_are_listed(client: Client, cloud: SteppedCloud) -> None:
    for instance in (Instance.named(f"node-{number}") for number in range(2500)):
        cloud.instances[instance.id] = instance
    parts = [part async for part in client.call("ListInstances", v1.ListInstancesRequest())]
    assert len({each.provider_id for part in parts for each in part.items}) == 2500


async def test_failures_of_the_cloud_have_the_contracts_reasons(client: Client, cloud: SteppedCloud) -> None:
    request = v1.BatchGetInstancesRequest(items=[v1.Node(name="a")])
    assert cloud.switch
    for state, reason, readiness in (
        ("limited", "RATE_LIMITED", v1.READINESS_DEGRADED),
        ("off", "CLOUD_UNAVAILABLE", v1.READINESS_DEGRADED),
        ("locked", "CREDENTIALS_INVALID", v1.READINESS_DEGRADED),
        ("on", "", v1.READINESS_READY),
    ):
        cloud.switch.write_text(state)
        call = client.call("BatchGetInstances", request)
        if reason:
            assert await reason_of(call) == reason
        else:
            await call
        assert (await client.call("GetStatus", v1.GetStatusRequest())).readiness == readiness
    assert cloud.switch.with_suffix(".counts").read_text() == "calls 4\nchanges 0\n"
