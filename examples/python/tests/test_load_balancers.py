"""Load balancers of the cloud."""

import asyncio
from typing import Any

import pytest
from conftest import INLINE, TAGS, SteppedCloud, node, service, until
from errors import reason_in, reason_of
from outrigger_provider import v1
from outrigger_provider.testing import CONTEXT, Client


def disposition(answer: v1.LoadBalancerAnswer) -> str:
    return v1.LoadBalancerDisposition.Name(answer.disposition).removeprefix("LOAD_BALANCER_DISPOSITION_")


async def ensure(client: Client, of: v1.Service, targets: v1.NodeTargets = INLINE, **more: Any) -> Any:
    request = v1.EnsureLoadBalancerRequest(service=of, targets=targets, **more)
    return (await client.call("EnsureLoadBalancer", request)).answer


async def get(client: Client, of: v1.Service, targets: v1.NodeTargets | None = None) -> Any:
    request = v1.GetLoadBalancerRequest(service=of, targets=targets)
    return (await client.call("GetLoadBalancer", request)).answer


async def delete(client: Client, of: v1.Service) -> str:
    return disposition((await client.call("DeleteLoadBalancer", v1.DeleteLoadBalancerRequest(service=of))).answer)


async def test_life_of_a_load_balancer(client: Client, cloud: SteppedCloud) -> None:
    assert disposition(await get(client, service())) == "ABSENT"
    made = await ensure(client, service())
    assert disposition(made) == "READY"
    assert await ensure(client, service()) == made
    assert await get(client, service(), INLINE) == made
    assert len(cloud.load_balancers) == 1
    changed = service()
    changed.ports.add(name="dns", protocol="UDP", port=53, node_port=30053)
    differs = await get(client, changed)
    assert (disposition(differs), differs.message) == ("DIFFERS", "it has other listeners")
    assert (await ensure(client, changed)).status == made.status
    assert disposition(await get(client, changed, INLINE)) == "READY"
    other = v1.NodeTargets(inline=v1.InlineNodes(nodes=[node("b", "10.0.0.2")]))
    assert disposition(await get(client, changed, other)) == "DIFFERS"
    parts = [part async for part in client.call("ListLoadBalancers", v1.ListLoadBalancersRequest())]
    assert [each.service.uid for part in parts for each in part.items] == ["uid-1"]
    assert [await delete(client, changed) for _ in range(2)] == ["ABSENT", "ABSENT"]
    assert cloud.load_balancers == {}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (v1.Service(ports=[v1.ServicePort(protocol="SCTP", port=1)]), "UNSUPPORTED_PROTOCOL"),
        (v1.Service(session_affinity="ClientIP"), "UNSUPPORTED_FEATURE"),
        (v1.Service(load_balancer_ip="192.0.2.1"), "UNSUPPORTED_FEATURE"),
        (v1.Service(annotations={"example.outrigger.dev/proxy-protocol": "perhaps"}), "INVALID_ANNOTATION"),
    ],
)
async def test_what_the_cloud_lacks_is_refused(
    client: Client, cloud: SteppedCloud, change: v1.Service, reason: str
) -> None:
    of = service()
    of.MergeFrom(change)
    assert await reason_of(ensure(client, of)) == reason
    assert cloud.load_balancers == {}


async def test_both_ip_families_have_an_address(client: Client) -> None:
    of = service()
    of.ip_families.extend(["IPv6", "IPv4"])
    assert [each.ip for each in (await ensure(client, of)).status.ingress] == ["2001:db8::1", "198.18.0.1"]
    of.ip_families.pop()
    assert await reason_of(ensure(client, of)) == "UNSUPPORTED_FEATURE"


async def test_a_service_of_a_class_is_left_alone(client: Client, cloud: SteppedCloud) -> None:
    of = service()
    of.load_balancer_class = "vendor.example/other"
    assert disposition(await ensure(client, of)) == "NOT_MANAGED"
    assert cloud.load_balancers == {}


async def test_the_account_has_room_for_so_many(client: Client, cloud: SteppedCloud) -> None:
    cloud.room = 1
    await ensure(client, service())
    assert await reason_of(ensure(client, service("uid-2"))) == "QUOTA_EXCEEDED"


async def test_addresses_survive_a_restart(client: Client) -> None:
    of = service()
    of.status.ingress.add(ip="198.18.0.9")
    assert (await ensure(client, of)).status == of.status


async def test_a_change_whose_caller_has_gone_begins_no_other_call_of_the_cloud(
    client: Client, cloud: SteppedCloud
) -> None:
    """Cancelled in the cloud call that creates: that one ends, no other one begins."""
    cloud.hold()
    call = client.call("EnsureLoadBalancer", v1.EnsureLoadBalancerRequest(service=service(), targets=INLINE))
    cloud.steps.release()
    await cloud.reached(2)
    call.cancel()
    # The server has seen the cancellation before it answers what comes later on the same connection.
    await client.call("GetStatus", v1.GetStatusRequest())
    await client.call("GetStatus", v1.GetStatusRequest())
    for _ in range(10):
        cloud.steps.release()
    await until(lambda: TAGS in cloud.load_balancers)
    assert disposition(await ensure(client, service())) == "READY"
    # Two of the first call, then a lookup and the targets.
    assert cloud.begun == 4
    assert cloud.load_balancers[TAGS].spec.targets == {"10.0.0.1"}


async def test_an_update_answers_each_service(client: Client, cloud: SteppedCloud) -> None:
    made = await ensure(client, service())
    targets = await client.sync("2", [node("a", "10.0.0.1"), node("b", "10.0.0.2")])
    request = v1.UpdateLoadBalancerNodesRequest(items=[service(), service("uid-3")], targets=targets)
    parts = client.call("UpdateLoadBalancerNodes", request)
    results = {each.key: each async for part in parts for each in part.results}
    assert results["uid-1"].found == made
    assert disposition(results["uid-3"].found) == "ABSENT"
    assert cloud.load_balancers[TAGS].spec.targets == {"10.0.0.1", "10.0.0.2"}
    assert cloud.switch
    cloud.switch.write_text("off")
    failed = [each async for part in client.call("UpdateLoadBalancerNodes", request) for each in part.results]
    assert {reason_in(each.error) for each in failed} == {"CLOUD_UNAVAILABLE"}


async def test_load_balancers_of_another_cluster_are_not_listed(client: Client) -> None:
    await asyncio.gather(*(ensure(client, service(f"uid-{number}")) for number in range(3)))
    for uid, count in ((CONTEXT.cluster_uid, 3), ("another", 0)):
        context = v1.CallContext(cluster_name=CONTEXT.cluster_name, cluster_uid=uid)
        parts = client.call("ListLoadBalancers", v1.ListLoadBalancersRequest(context=context))
        assert len([each async for part in parts for each in part.items]) == count
