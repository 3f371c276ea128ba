"""Answers about Nodes, over a socket."""

import asyncio
from pathlib import Path

from outrigger_provider import v1
from outrigger_provider.testing import served

from provider_my_cloud.machines import SCHEME
from provider_my_cloud.main import provider


def look_up(path: Path, *nodes: v1.Node) -> dict[str, v1.InstanceResult]:
    async def call() -> dict[str, v1.InstanceResult]:
        async with served(provider, path) as client:
            answer = await client.call("BatchGetInstances", v1.BatchGetInstancesRequest(items=nodes))
            return {result.key: result for result in answer.results}

    return asyncio.run(call())


def test_a_machine_is_answered_by_name_and_by_id(tmp_path: Path) -> None:
    by_id = v1.Node(name="renamed", provider_id=f"{SCHEME}node-3")
    results = look_up(tmp_path / "provider.sock", v1.Node(name="node-1"), by_id)
    assert results["node-1"].found.provider_id == f"{SCHEME}node-1"
    assert [address.address for address in results["node-1"].found.addresses] == ["10.0.0.1"]
    assert results["renamed"].found.power_state == v1.POWER_STATE_SHUTDOWN


def test_what_is_no_machine_is_told_apart(tmp_path: Path) -> None:
    results = look_up(
        tmp_path / "provider.sock",
        v1.Node(name="gone"),
        v1.Node(name="foreign", provider_id="other-cloud://i-1"),
        v1.Node(name="malformed", provider_id=f"{SCHEME}not an id"),
    )
    outcomes = {name: result.WhichOneof("outcome") for name, result in results.items()}
    assert outcomes == {"gone": "absent", "foreign": "not_managed", "malformed": "error"}
