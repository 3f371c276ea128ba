"""The vectors that the SDKs of all languages share."""

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest
from conftest import Balancers, Machines, ensure, provider, until, vectors
from errors import failure
from google.protobuf.json_format import ParseDict
from google.rpc import status_pb2

from outrigger_provider import Call, Error, Reason, Targets, not_visible_yet, ready, v1
from outrigger_provider.server import serve
from outrigger_provider.testing import Client, served


@pytest.mark.parametrize("vector", vectors("node_sets"), ids=lambda vector: vector["case"])
async def test_node_sets(vector: Any, tmp_path: Path) -> None:
    resolved: list[Targets] = []

    def change(call: Call, service: v1.Service, targets: Targets) -> v1.LoadBalancerAnswer:
        resolved.append(targets)
        return ready("192.0.2.1")

    async with served(provider(load_balancers=Balancers(change)), tmp_path / "p.sock") as client:
        for step in vector["steps"]:
            if "targets" in step:
                call = client.call("EnsureLoadBalancer", ensure(targets=ParseDict(step["targets"], v1.NodeTargets())))
            else:
                parts = [ParseDict(part, v1.SyncNodeSetRequest()) for part in step["upload"]]
                call = client.call("SyncNodeSet", parts)
            if "reason" in step:
                assert (await failure(call)).reason == step["reason"]
            elif "revision" in step:
                assert (await call).revision == step["revision"]
            else:
                await call
                assert list(resolved[-1]) == [ParseDict(node, v1.Node()) for node in step["nodes"]]


@pytest.mark.parametrize("vector", vectors("handshake", "context"), ids=lambda vector: vector["case"])
async def test_handshakes_and_contexts(vector: Any, tmp_path: Path) -> None:
    calls: list[Call] = []
    leave = asyncio.Event()

    async def look_up(call: Call, node: v1.Node) -> v1.Absent:
        calls.append(call)
        if node.name == "waits":
            await leave.wait()
        return not_visible_yet()

    path, stop = tmp_path / "p.sock", asyncio.Event()
    serving = asyncio.create_task(serve(provider(instances=Machines(look_up)), path, stop))
    await until(lambda: path.exists() or serving.done())
    client = Client(path)
    waiting: Any = None
    for step in vector["steps"]:
        if "drain" in step:
            context = v1.CallContext(cluster_name="prod")
            request = v1.BatchGetInstancesRequest(context=context, items=[v1.Node(name="waits")])
            waiting = asyncio.ensure_future(client.send("BatchGetInstances", request))
            await until(lambda: bool(calls))
            stop.set()
            await asyncio.sleep(0)
            continue
        call: Any
        if "handshake" in step:
            call = client.call("Handshake", ParseDict(step["handshake"], v1.HandshakeRequest()))
        else:
            request = v1.BatchGetInstancesRequest(items=[v1.Node(name="a")])
            if step["call"] is not None:
                request.context.CopyFrom(ParseDict(step["call"], v1.CallContext()))
            call = client.send("BatchGetInstances", request)
        if "reason" in step:
            assert (await failure(call)).reason == step["reason"]
        elif "minor" in step:
            assert (await call).minor == step["minor"]
        else:
            await call
            cluster = calls[-1].cluster
            expected = ParseDict(step["cluster"], v1.ClusterInfo())
            assert (cluster.name, cluster.uid) == (expected.name, expected.uid)
            assert list(cluster.pod_cidrs) == expected.pod_cidrs
            assert list(cluster.service_cidrs) == expected.service_cidrs
    leave.set()
    if waiting:
        assert len((await waiting).results) == 1
    await client.channel.close(None)
    stop.set()
    await serving


@pytest.mark.parametrize("row", vectors("errors"), ids=lambda row: f"{row['case']} {row['reason']}")
async def test_errors(row: Any, tmp_path: Path) -> None:
    effects = ParseDict(row["effects"], v1.KubernetesEffects()) if "effects" in row else None

    def change(call: Call, service: v1.Service, targets: Targets) -> v1.LoadBalancerAnswer:
        retry_after = row.get("retryAfter")
        raise Error(Reason(row["reason"]), row["message"], retry_after=retry_after, effects=effects)

    async with served(provider(load_balancers=Balancers(change)), tmp_path / "p.sock") as client:
        failed = await failure(client.call("EnsureLoadBalancer", ensure()))
    expected = status_pb2.Status.FromString(base64.b64decode(row["status"]))
    assert failed.status == expected


def test_each_reason_of_the_contract_can_be_raised() -> None:
    names = [name.removeprefix("ERROR_REASON_") for name in v1.ErrorReason.keys()]  # noqa: SIM118
    assert [str(reason) for reason in Reason] == [name for name in names if name != "UNSPECIFIED"]
