"""Handshake, errors, limits, the socket and the end."""

import asyncio
import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import grpc
import pytest
from conftest import CONTEXT, Client, Provider, until
from errors import reason_of

from cloudprovider.v1.common_pb2 import Node
from cloudprovider.v1.instances_pb2 import BatchGetInstancesRequest
from cloudprovider.v1.provider_pb2 import ClusterInfo, GetStatusRequest, HandshakeRequest
from example_provider.cloud import Cloud
from example_provider.probe import probe
from example_provider.server import serve
from example_provider.socket_file import SocketError, identity, path_of


async def test_boot_id_is_the_same_in_handshake_and_status(unnamed: Provider) -> None:
    request = HandshakeRequest(min_minor=1, max_minor=7, cluster=ClusterInfo(name="test"))
    answer = await unnamed.provider.Handshake(request)
    status = await unnamed.provider.GetStatus(GetStatusRequest())
    assert answer.minor == 1
    assert answer.boot_id == status.boot_id != ""


async def test_another_minor_is_refused_with_both_ranges(unnamed: Provider) -> None:
    request = HandshakeRequest(min_minor=2, max_minor=3, cluster=ClusterInfo(name="test"))
    error = await reason_of(unnamed.provider.Handshake(request))
    assert error.reason == "VERSION_UNSUPPORTED"
    assert error.code == grpc.StatusCode.FAILED_PRECONDITION
    assert "2 to 3" in error.text


async def test_a_call_before_the_handshake_is_refused(unnamed: Provider) -> None:
    request = BatchGetInstancesRequest(context=CONTEXT, items=[Node(name="a")])
    assert (await reason_of(unnamed.instances.BatchGetInstances(request))).reason == "NOT_HANDSHAKED"


async def test_a_message_of_more_than_grpc_takes_by_itself_arrives(provider: Provider) -> None:
    node = Node(name="a", annotations={"example.outrigger.dev/large": "x" * (5 << 20)})
    request = BatchGetInstancesRequest(context=CONTEXT, items=[node])
    assert len((await provider.instances.BatchGetInstances(request)).results) == 1


async def test_the_socket_is_for_user_and_group_alone(provider: Provider) -> None:
    status = provider.path.lstat()
    assert stat.S_ISSOCK(status.st_mode)
    assert stat.S_IMODE(status.st_mode) == 0o660
    assert [path.name for path in provider.path.parent.iterdir()] == ["provider.sock"]


async def test_a_probe_tells_whether_the_provider_answers(unnamed: Provider, tmp_path: Path) -> None:
    assert await probe(unnamed.path) == (True, f"the provider at {unnamed.path} is ready")
    answers, sentence = await probe(tmp_path / "none.sock")
    assert not answers
    assert "none.sock does not answer: UNAVAILABLE" in sentence
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "silent.sock"))
        silent.listen()
        answers, sentence = await probe(tmp_path / "silent.sock", seconds=0.2)
    assert not answers
    assert "DEADLINE_EXCEEDED" in sentence


async def test_a_live_socket_is_refused_and_a_stale_one_replaced(provider: Provider, tmp_path: Path) -> None:
    with pytest.raises(SocketError, match="another process serves"):
        await serve(Cloud(), provider.path, asyncio.Event())
    assert (await provider.provider.GetStatus(GetStatusRequest())).boot_id
    stale = tmp_path / "stale.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(stale))
    before = identity(stale)
    other = Provider(stale)
    await until(lambda: other.served.done() or identity(stale) != before)
    assert (await other.provider.GetStatus(GetStatusRequest())).boot_id
    await other.end()
    assert identity(stale) is None


async def test_a_file_that_is_no_socket_stays(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("mine")
    with pytest.raises(SocketError, match="is no socket"):
        await serve(Cloud(), path, asyncio.Event())
    assert path.read_text() == "mine"


@pytest.mark.parametrize("endpoint", ["tcp://a:1", "unix:a.sock", "unix:///", "/a.sock", "unix:///" + "x" * 100])
def test_an_endpoint_that_is_no_absolute_path_is_refused(endpoint: str) -> None:
    with pytest.raises(SocketError, match="endpoint"):
        path_of(endpoint)


async def test_sigterm_lets_a_call_in_flight_end(tmp_path: Path) -> None:
    path = tmp_path / "provider.sock"
    environment = os.environ | {"CLOUDPROVIDER_ENDPOINT": f"unix://{path}"}
    args = [sys.executable, "-m", "example_provider", "--instance", "a", "--latency", "3"]
    process = await asyncio.create_subprocess_exec(*args, env=environment, stderr=subprocess.PIPE)
    assert process.stderr
    lines = process.stderr

    async def says(text: bytes) -> None:
        async with asyncio.timeout(30):
            while text not in (line := await lines.readline()):
                assert line, f"the provider has ended without saying {text!r}"

    await says(b"serving")
    client = Client(path)
    await client.shake_hands()
    request = BatchGetInstancesRequest(context=CONTEXT, items=[Node(name="a")])
    call = asyncio.ensure_future(client.instances.BatchGetInstances(request))
    # On the same connection: the second was sent after the lookup, whose handler has begun once it is answered.
    await client.provider.GetStatus(GetStatusRequest())
    await client.provider.GetStatus(GetStatusRequest())
    process.send_signal(signal.SIGTERM)
    # The task of a GetStatus that is answered may be there for a moment longer, so the number may be 2.
    await says(b"ending: ")
    assert (await reason_of(client.provider.GetStatus(GetStatusRequest()))).reason == "SHUTTING_DOWN"
    assert (await call).results[0].found.provider_id.startswith("example://i-")
    assert await asyncio.wait_for(process.wait(), 30) == 0
    assert not path.exists()
    await client.channel.close(None)
