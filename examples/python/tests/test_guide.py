"""The guide's smallest provider is a provider."""

import asyncio
import os
import sys
from pathlib import Path

from conftest import CONTEXT, Client, until

from cloudprovider.v1.common_pb2 import Node
from cloudprovider.v1.instances_pb2 import BatchGetInstancesRequest
from cloudprovider.v1.provider_pb2 import GetStatusRequest, HandshakeRequest

GUIDE = Path(__file__).parents[3] / "docs/guide/python.md"


async def test_smallest_provider_of_the_guide_serves_three_calls(tmp_path: Path) -> None:
    code = next(block for block in GUIDE.read_text().split("```python\n") if "asyncio.run(main())" in block)
    path = tmp_path / "provider.sock"
    environment = os.environ | {"CLOUDPROVIDER_ENDPOINT": f"unix://{path}"}
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code.split("```")[0], env=environment)
    await until(lambda: path.exists() or process.returncode is not None)
    client = Client(path)
    boot_id = (await client.provider.Handshake(HandshakeRequest(min_minor=1, max_minor=1))).boot_id
    assert (await client.provider.GetStatus(GetStatusRequest())).boot_id == boot_id != ""
    nodes = [Node(name="node-1"), Node(name="b"), Node(name="c", provider_id="other://c")]
    answer = await client.instances.BatchGetInstances(BatchGetInstancesRequest(context=CONTEXT, nodes=nodes))
    assert [result.WhichOneof("outcome") for result in answer.results] == ["found", "absent", "not_managed"]
    await client.channel.close(None)
    process.terminate()
    assert await asyncio.wait_for(process.wait(), 30) == 0
