"""Load balancers and the node sets that they name."""

import asyncio
from typing import Any

import pytest
from conftest import CONTEXT, Provider, begin, node, service, until
from errors import details, reason_of

from cloudprovider.v1.common_pb2 import CallContext, LoadBalancerIngress, LoadBalancerStatus, Service, ServicePort
from cloudprovider.v1.load_balancers_pb2 import (
    DeleteLoadBalancerRequest,
    EnsureLoadBalancerRequest,
    GetLoadBalancerRequest,
    HeldAddresses,
    LoadBalancerAnswer,
    LoadBalancerDisposition,
    UpdateLoadBalancerNodesRequest,
)
from cloudprovider.v1.node_sets_pb2 import InlineNodes, NodeSetChunk, NodeSetCommit, NodeSetRef, NodeTargets
from cloudprovider.v1.node_sets_pb2 import SyncNodeSetRequest as Part
from example_provider.calls import Caller

INLINE = NodeTargets(inline=InlineNodes(nodes=[node("a", "10.0.0.1")]))
TAGS = (CONTEXT.cluster_uid, "uid-1")


def disposition(answer: LoadBalancerAnswer) -> str:
    return LoadBalancerDisposition.Name(answer.disposition).removeprefix("LOAD_BALANCER_DISPOSITION_")


def ensuring(of: Service, targets: NodeTargets = INLINE, **more: Any) -> EnsureLoadBalancerRequest:
    return EnsureLoadBalancerRequest(context=CONTEXT, service=of, targets=targets, **more)


async def ensure(provider: Provider, of: Service, targets: NodeTargets = INLINE, **more: Any) -> LoadBalancerAnswer:
    response = await provider.load_balancers.EnsureLoadBalancer(ensuring(of, targets, **more))
    return response.answer


async def get(provider: Provider, of: Service, targets: NodeTargets | None = None) -> LoadBalancerAnswer:
    request = GetLoadBalancerRequest(context=CONTEXT, service=of, targets=targets)
    response = await provider.load_balancers.GetLoadBalancer(request)
    return response.answer


async def delete(provider: Provider, of: Service) -> str:
    request = DeleteLoadBalancerRequest(context=CONTEXT, service=of)
    return disposition((await provider.load_balancers.DeleteLoadBalancer(request)).answer)


async def test_life_of_a_load_balancer(provider: Provider) -> None:
    assert disposition(await get(provider, service())) == "ABSENT"
    made = await ensure(provider, service())
    assert disposition(made) == "READY"
    assert await ensure(provider, service()) == made
    assert await get(provider, service(), INLINE) == made
    assert len(provider.cloud.load_balancers) == 1
    changed = service()
    changed.ports.add(name="dns", protocol="UDP", port=53, node_port=30053)
    differs = await get(provider, changed)
    assert (disposition(differs), differs.message) == ("DIFFERS", "it has other listeners")
    assert (await ensure(provider, changed)).status == made.status
    assert disposition(await get(provider, changed, INLINE)) == "READY"
    other = NodeTargets(inline=InlineNodes(nodes=[node("b", "10.0.0.2")]))
    assert disposition(await get(provider, changed, other)) == "DIFFERS"
    assert [await delete(provider, changed) for _ in range(2)] == ["ABSENT", "ABSENT"]
    assert provider.cloud.load_balancers == {}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (Service(ports=[ServicePort(protocol="SCTP", port=1)]), "UNSUPPORTED_PROTOCOL"),
        (Service(session_affinity="ClientIP"), "UNSUPPORTED_FEATURE"),
        (Service(load_balancer_ip="192.0.2.1"), "UNSUPPORTED_FEATURE"),
        (Service(ip_families=["IPv6"]), "UNSUPPORTED_FEATURE"),
    ],
)
async def test_a_wish_that_the_cloud_lacks_is_refused(provider: Provider, change: Service, reason: str) -> None:
    of = service()
    of.MergeFrom(change)
    call = provider.load_balancers.EnsureLoadBalancer(ensuring(of))
    assert (await reason_of(call)).reason == reason
    assert provider.cloud.load_balancers == {}


async def test_a_change_without_the_uid_of_the_cluster_is_refused(provider: Provider) -> None:
    context = CallContext(cluster_name=CONTEXT.cluster_name)
    request = EnsureLoadBalancerRequest(context=context, service=service(), targets=INLINE)
    call = provider.load_balancers.EnsureLoadBalancer(request)
    assert (await reason_of(call)).reason == "INVALID_REQUEST"


async def test_a_service_of_a_class_is_left_alone(provider: Provider) -> None:
    of = service()
    of.load_balancer_class = "vendor.example/other"
    assert disposition(await ensure(provider, of)) == disposition(await get(provider, of)) == "NOT_MANAGED"
    assert provider.cloud.load_balancers == {}


async def test_addresses_survive_a_restart_and_are_never_shared(provider: Provider) -> None:
    held = HeldAddresses(ips=["198.18.0.1", "198.18.0.2"])
    made = await ensure(provider, service(), held_addresses=held)
    assert [each.ip for each in made.status.ingress] == ["198.18.0.3"]
    status = LoadBalancerStatus(ingress=[LoadBalancerIngress(ip="198.18.0.9")])
    of = service("uid-2")
    of.status.CopyFrom(status)
    again = await ensure(provider, of)
    assert again.status == status


async def test_a_change_outlives_its_caller_and_holds_its_key(provider: Provider, callers: list[Caller]) -> None:
    """Cancelled in the cloud call that creates: that one ends, no other one begins."""
    cloud = provider.cloud
    cloud.hold()
    call = provider.load_balancers.EnsureLoadBalancer(ensuring(service()))
    cloud.steps.release()
    await cloud.reached(2)
    call.cancel()
    await until(lambda: callers[0].gone)
    busy = await reason_of(provider.load_balancers.EnsureLoadBalancer(ensuring(service())))
    assert (busy.reason, busy.retry_after) == ("OPERATION_IN_PROGRESS", 1)
    for _ in range(10):
        cloud.steps.release()
    await until(lambda: TAGS in cloud.load_balancers)
    assert (cloud.begun, cloud.load_balancers[TAGS].spec.targets) == (2, frozenset())
    assert disposition(await ensure(provider, service())) == "READY"
    assert cloud.load_balancers[TAGS].spec.targets == {"10.0.0.1"}
    assert len(cloud.load_balancers) == 1


@pytest.mark.parametrize("cause", ["deadline", "connection"])
async def test_work_ends_with_its_deadline_or_connection(provider: Provider, callers: list[Caller], cause: str) -> None:
    provider.cloud.hold()
    timeout = 0.2 if cause == "deadline" else None
    call = provider.load_balancers.EnsureLoadBalancer(ensuring(service()), timeout=timeout)
    await provider.cloud.reached(1)
    if cause == "connection":
        await provider.channel.close(None)
    await until(lambda: callers[0].gone)
    for _ in range(10):
        provider.cloud.steps.release()
    await until(call.done)
    # The lookup has ended; the creation did not begin.
    await asyncio.wait_for(provider.end(), 30)
    assert (provider.cloud.begun, provider.cloud.load_balancers) == (1, {})


async def update(provider: Provider, of: list[Service], targets: NodeTargets) -> dict[str, Any]:
    request = UpdateLoadBalancerNodesRequest(context=CONTEXT, items=of, targets=targets)
    parts = provider.load_balancers.UpdateLoadBalancerNodes(request)
    return {each.key: each async for part in parts for each in part.results}


async def test_an_update_answers_each_service(provider: Provider) -> None:
    made = await ensure(provider, service())
    targets = await provider.sync("2", [node("a", "10.0.0.1"), node("b", "10.0.0.2")])
    provider.cloud.hold()
    busy = asyncio.ensure_future(ensure(provider, service("uid-2")))
    await provider.cloud.reached(1)
    updating = asyncio.ensure_future(update(provider, [service(), service("uid-2"), service("uid-3")], targets))
    await provider.cloud.reached(3)
    for _ in range(10):
        provider.cloud.steps.release()
    results = await updating
    assert results["uid-1"].found == made
    assert details(results["uid-2"].error) == ("OPERATION_IN_PROGRESS", 1)
    assert disposition(results["uid-3"].found) == "ABSENT"
    assert provider.cloud.load_balancers[TAGS].spec.targets == {"10.0.0.1", "10.0.0.2"}
    await busy


async def test_a_revision_is_held_until_two_later_ones_have_come(provider: Provider) -> None:
    first = await provider.sync("1", [node("a", "10.0.0.1")])
    await provider.sync("2", [node("a", "10.0.0.1"), node("b", "10.0.0.2")])
    assert disposition(await ensure(provider, service(), first)) == "READY"
    for _ in range(2):
        third = await provider.sync("3", [node("b", "10.0.0.2")])
    await ensure(provider, service(), third)
    assert provider.cloud.load_balancers[TAGS].spec.targets == {"10.0.0.2"}
    call = provider.load_balancers.EnsureLoadBalancer(ensuring(service(), first))
    assert (await reason_of(call)).reason == "NODE_SET_UNKNOWN"


CHUNK = Part(chunk=NodeSetChunk(upserts=[node("a", "10.0.0.1")]))
COMMIT = Part(commit=NodeSetCommit(change_count=1))


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [CHUNK, COMMIT],
        [Part(begin=begin("1", 1)), CHUNK],
        [Part(begin=begin("1", 2)), CHUNK, COMMIT],
        [Part(begin=begin("1", 1)), CHUNK, CHUNK, COMMIT],
    ],
)
async def test_an_upload_is_applied_whole_or_not_at_all(provider: Provider, parts: list[Part]) -> None:
    assert (await reason_of(provider.node_sets.SyncNodeSet(iter(parts)))).reason == "INVALID_REQUEST"
    named = NodeTargets(ref=NodeSetRef(set_id="nodes", revision="1"))
    call = provider.load_balancers.EnsureLoadBalancer(ensuring(service(), named))
    assert (await reason_of(call)).reason == "NODE_SET_UNKNOWN"


async def test_no_targets_are_no_empty_set(provider: Provider) -> None:
    call = provider.load_balancers.EnsureLoadBalancer(ensuring(service(), NodeTargets()))
    assert (await reason_of(call)).reason == "INVALID_REQUEST"
