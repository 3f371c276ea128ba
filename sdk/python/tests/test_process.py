"""Socket, probe, health, exit codes and the end of the process."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from conftest import Balancers, look_up, provider, until
from errors import failure
from grpc.aio import AioRpcError
from grpc_health.v1 import health_pb2, health_pb2_grpc

from outrigger_provider import (
    Call,
    Dependencies,
    SocketError,
    probe,
    serve,
    v1,
)
from outrigger_provider.contract import METHODS
from outrigger_provider.socket_file import identity, path_of, prepared
from outrigger_provider.testing import CONTEXT, Client, served

PROGRAM = """
import argparse, asyncio, time
from outrigger_provider import Call, Instances, Lookup, Provider, Query, main, not_visible_yet, v1


class Machines(Instances):
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    async def get_instance(self, call: Call, node: v1.Node, query: Query) -> Lookup:
        if node.name.startswith("blocks"):
            time.sleep(self.seconds)
        if node.name == "blocks-and-ends":
            return not_visible_yet()
        await asyncio.sleep(self.seconds)
        return not_visible_yet()


class Threads(Machines):
    def get_instance(self, call: Call, node: v1.Node, query: Query) -> Lookup:
        time.sleep(self.seconds)
        return not_visible_yet()


async def build(given: argparse.Namespace) -> Provider:
    if given.fails:
        raise OSError("the cloud does not know the token")
    if given.builds_slowly:
        print("building", flush=True)
        await asyncio.sleep(60)
    machines = Threads(given.seconds) if given.threads else Machines(given.seconds)
    return "nothing" if given.nothing else Provider(given.name, "1", instances=machines)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--name", default="test")
    parser.add_argument("--seconds", type=float, default=0)
    for flag in ("--fails", "--builds-slowly", "--nothing", "--threads"):
        parser.add_argument(flag, action="store_true")


main(build, arguments=arguments)
"""


class Process:
    """A provider in a process of its own, and its log."""

    def __init__(self, process: asyncio.subprocess.Process, path: Path) -> None:
        self.process, self.path, self.lines = process, path, [dict[str, Any]()]

    async def says(self, text: str) -> dict[str, Any]:
        assert self.process.stderr
        async with asyncio.timeout(30):
            while line := await self.process.stderr.readline():
                self.lines.append(json.loads(line))
                if text in self.lines[-1]["message"]:
                    return self.lines[-1]
        raise AssertionError(f"the provider has ended without saying {text!r}: {self.lines}")

    async def ended(self) -> int:
        return await asyncio.wait_for(self.process.wait(), 30)


@asynccontextmanager
async def started(path: Path, *arguments: str) -> AsyncIterator[Process]:
    environment = os.environ | {"CLOUDPROVIDER_ENDPOINT": f"unix://{path}"}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, *arguments, env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        yield Process(process, path)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_a_file_that_is_no_socket_stays(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("mine")
    with pytest.raises(SocketError, match="is not a socket"):
        await serve(provider(), path, asyncio.Event())
    assert path.read_text() == "mine"


async def test_a_directory_that_another_start_has_locked_is_waited_for(tmp_path: Path) -> None:
    async with prepared(tmp_path / "p.sock") as temporary:
        second = asyncio.create_task(serve(provider(), tmp_path / "p.sock", stop := asyncio.Event()))
        await asyncio.sleep(0.1)
        assert not (tmp_path / "p.sock").exists()
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(temporary))
    await until(lambda: second.done() or identity(tmp_path / "p.sock") is not None)
    stop.set()
    await second


@pytest.mark.parametrize(
    ("endpoint", "why"),
    [
        ("tcp://a:1", "no Unix socket"),
        ("/a.sock", "no Unix socket"),
        ("unix:a.sock", "no Unix socket"),
        ("unix://", "no Unix socket"),
        ("unix:///", "no Unix socket"),
        ("unix:///" + "x" * 100, "101 bytes"),
    ],
)
def test_an_endpoint_that_is_no_absolute_path_is_refused(endpoint: str, why: str) -> None:
    with pytest.raises(SocketError, match=why):
        path_of(endpoint)


def test_both_spellings_of_an_endpoint_are_read() -> None:
    assert path_of("unix:///run/a.sock") == path_of("unix:/run/a.sock") == Path("/run/a.sock")


async def test_a_probe_says_how_the_provider_is(tmp_path: Path) -> None:
    dependencies = Dependencies("cloud-api", "credentials")
    named = provider()
    named.status = dependencies.status
    path = tmp_path / "p.sock"
    async with served(named, path, shakes_hands=False):
        assert await probe(path) == (True, f"the provider at unix://{path} is ready")
        dependencies.fails("credentials", "the token has expired")
        degraded = f"the provider at unix://{path} is degraded: credentials (the token has expired)"
        assert await probe(path) == (True, degraded)
        dependencies.works("credentials")
        for readiness, live, is_ready in ((v1.READINESS_STARTING, True, False), (v1.READINESS_BROKEN, False, False)):
            answer = v1.GetStatusResponse(readiness=readiness)
            named.status = lambda answer=answer: answer
            assert [(await probe(path))[0], (await probe(path, is_readiness=True))[0]] == [live, is_ready]
    succeeds, sentence = await probe(path)
    assert (succeeds, "no provider serves" in sentence) == (False, True)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "silent.sock"))
        silent.listen()
        succeeds, sentence = await probe(tmp_path / "silent.sock", seconds=0.2)
    assert (succeeds, "DEADLINE_EXCEEDED" in sentence) == (False, True)


async def test_health_is_what_the_status_says(tmp_path: Path) -> None:
    named = provider(load_balancers=Balancers())
    async with served(named, tmp_path / "p.sock") as client:
        health = health_pb2_grpc.HealthStub(client.channel)
        for name in ("", "cloudprovider.v1.LoadBalancersService"):
            answer = await health.Check(health_pb2.HealthCheckRequest(service=name))
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        unknown = await failure(health.Check(health_pb2.HealthCheckRequest(service="other")))
        assert unknown.code == "NOT_FOUND"
        named.status = lambda: v1.GetStatusResponse(readiness=v1.READINESS_STARTING)
        answer = await health.Check(health_pb2.HealthCheckRequest())
        assert answer.status == health_pb2.HealthCheckResponse.NOT_SERVING


async def test_a_status_that_fails_is_broken(tmp_path: Path) -> None:
    named = provider()
    named.status = lambda: v1.GetStatusResponse.FromString(b"\xff")
    async with served(named, tmp_path / "p.sock") as client:
        answer = await client.call("GetStatus", v1.GetStatusRequest())
    assert (answer.readiness, bool(answer.boot_id)) == (v1.READINESS_BROKEN, True)


async def test_sigterm_lets_a_call_in_flight_end(tmp_path: Path) -> None:
    async with started(tmp_path / "p.sock", "--seconds=2") as process:
        await process.says("serving")
        client = Client(process.path)
        await client.shake_hands()
        call = asyncio.ensure_future(client.call("BatchGetInstances", look_up("a")))
        # On the same connection: the second was sent after the lookup, whose handler has begun once it is answered.
        await client.call("GetStatus", v1.GetStatusRequest())
        await client.call("GetStatus", v1.GetStatusRequest())
        process.process.send_signal(signal.SIGTERM)
        assert (await process.says("stopping"))["signal"] == "SIGTERM"
        await until_refused(client)
        assert process.path.exists()
        assert (await call).results[0].absent.certainty == v1.ABSENCE_CERTAINTY_NOT_VISIBLE_YET
        assert await process.ended() == 0
        assert not process.path.exists()
        await client.channel.close(None)


async def test_an_end_lets_an_upload_under_way_end(tmp_path: Path) -> None:
    path, stop = tmp_path / "p.sock", asyncio.Event()
    serving = asyncio.create_task(serve(provider(load_balancers=Balancers()), path, stop))
    await until(lambda: identity(path) is not None)
    client = Client(path)
    await client.shake_hands()
    method = METHODS["SyncNodeSet"]
    stub: Any = client.channel.stream_unary(method.path, method.request.SerializeToString, method.response.FromString)
    upload = stub()
    await upload.write(v1.SyncNodeSetRequest(context=CONTEXT, nodes=[v1.Node(name="a")]))
    await client.call("GetStatus", v1.GetStatusRequest())
    await client.call("GetStatus", v1.GetStatusRequest())
    stop.set()
    await until_refused(client)
    await upload.write(v1.SyncNodeSetRequest(complete=True, revision="r", node_count=1))
    await upload.done_writing()
    assert (await upload).revision == "r"
    await serving
    await client.channel.close(None)


async def until_refused(client: Client) -> None:
    async with asyncio.timeout(10):
        while True:
            try:
                await client.call("GetStatus", v1.GetStatusRequest())
            except Exception:
                break
            await asyncio.sleep(0.01)
    assert (await failure(client.call("GetStatus", v1.GetStatusRequest()))).reason == "SHUTTING_DOWN"


@pytest.mark.parametrize("flag", ["--seconds=100", "--threads"])
async def test_a_second_signal_ends_it_immediately(tmp_path: Path, flag: str) -> None:
    async with started(tmp_path / "p.sock", "--seconds=100", flag) as process:
        await process.says("serving")
        client = Client(process.path)
        await client.shake_hands()
        call = asyncio.ensure_future(client.call("BatchGetInstances", look_up("a")))
        await client.call("GetStatus", v1.GetStatusRequest())
        await client.call("GetStatus", v1.GetStatusRequest())
        process.process.send_signal(signal.SIGTERM)
        await process.says("stopping")
        process.process.send_signal(signal.SIGTERM)
        assert await process.ended() == -signal.SIGTERM
        assert (await failure(call)).code == "UNAVAILABLE"
        await client.channel.close(None)


async def test_a_signal_before_the_socket_ends_it_with_success(tmp_path: Path) -> None:
    async with started(tmp_path / "p.sock", "--builds-slowly") as process:
        assert process.process.stdout
        assert await asyncio.wait_for(process.process.stdout.readline(), 30) == b"building\n"
        process.process.send_signal(signal.SIGTERM)
        await process.says("stopped before serving")
        assert await process.ended() == 0


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--fails"], 1, "the cloud does not know the token"),
        (["--nothing"], 1, "the provider has failed"),
        (["--endpoint", "tcp://a:1"], 2, "is no Unix socket"),
        (["sing"], 2, "invalid choice: 'sing'"),
        (["probe"], 1, "no provider serves"),
        (["--help"], 0, "--seconds"),
    ],
)
async def test_exit_codes(tmp_path: Path, arguments: list[str], code: int, says: str) -> None:
    async with started(tmp_path / "p.sock", *arguments) as process:
        out, errors = await asyncio.wait_for(process.process.communicate(), 30)
        assert says in (out + errors).decode()
        assert process.process.returncode == code


async def test_it_ends_with_an_error_without_the_right_to_the_directory(tmp_path: Path) -> None:
    # A file in the place of the directory is refused to root, too.
    (tmp_path / "run").write_text("")
    async with started(tmp_path / "run" / "p.sock") as process:
        line = await process.says("the provider cannot serve")
        assert "cannot use the directory of the socket" in line["error"]
        assert await process.ended() == 1


@pytest.mark.skipif(os.getuid() == 0, reason="root may write to each directory")
async def test_it_ends_with_an_error_in_a_directory_of_another_user(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir(mode=0o500)
    async with started(tmp_path / "run" / "p.sock") as process:
        line = await process.says("the provider cannot serve")
        assert "Permission denied" in line["error"]
        assert await process.ended() == 1


async def test_it_ends_with_an_error_when_its_socket_is_removed(tmp_path: Path) -> None:
    async with started(tmp_path / "p.sock") as process:
        await process.says("serving")
        process.path.unlink()
        assert "was removed or replaced" in (await process.says("the provider cannot serve"))["error"]
        assert await process.ended() == 1


async def test_a_handler_that_blocks_the_event_loop_is_noticed(tmp_path: Path) -> None:
    async with started(tmp_path / "p.sock", "--seconds=2") as process:
        await process.says("serving")
        client = Client(process.path)
        await client.shake_hands()
        call = asyncio.ensure_future(client.call("BatchGetInstances", look_up("blocks")))
        assert (await process.says("a handler has blocked the event loop"))["seconds"] > 1
        assert len((await call).results) == 1
        await client.channel.close(None)


async def test_a_blocked_event_loop_is_no_cancelled_handler(tmp_path: Path) -> None:
    async with started(tmp_path / "p.sock", "--seconds=1") as process:
        await process.says("serving")
        client = Client(process.path)
        await client.shake_hands()
        with pytest.raises(AioRpcError):
            await client.call("BatchGetInstances", look_up("blocks-and-ends"), timeout=0.3)
        assert (await client.call("GetStatus", v1.GetStatusRequest())).boot_id
        await client.channel.close(None)
        process.process.send_signal(signal.SIGTERM)
        with pytest.raises(AssertionError, match="ended without saying"):
            await process.says("a line that does not come")
        assert not [line for line in process.lines if "cancelled" in json.dumps(line)]


async def test_a_handler_in_a_thread_blocks_nothing(tmp_path: Path) -> None:
    async with started(tmp_path / "p.sock", "--seconds=3", "--threads") as process:
        await process.says("serving")
        client = Client(process.path)
        await client.shake_hands()
        call = asyncio.ensure_future(client.call("BatchGetInstances", look_up("a", "b", "c")))
        assert (await client.call("GetStatus", v1.GetStatusRequest(), timeout=2)).boot_id
        assert len((await call).results) == 3
        await client.channel.close(None)
        process.process.send_signal(signal.SIGTERM)
        assert await process.ended() == 0
        assert not [line for line in process.lines if "has blocked" in line.get("message", "")]


def test_a_call_of_a_test_waits_for_ever() -> None:
    call = Call()
    call.check()
    assert call.remaining() is None
