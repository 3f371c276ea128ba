"""Calls: their results, errors, limits, and what is left of them when their caller goes away."""

import asyncio
import json
import logging
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest
from conftest import INLINE, Balancers, Machines, Table, ensure, look_up, provider, service, until
from errors import failure, read

from outrigger_provider import (
    ABSENT,
    NOT_MANAGED,
    RETAINED,
    Call,
    CallerGoneError,
    Error,
    Instances,
    LoadBalancers,
    Lookup,
    Query,
    Reason,
    Targets,
    WithEffects,
    absent,
    not_managed,
    not_visible_yet,
    ready,
    v1,
)
from outrigger_provider.contract import METHODS
from outrigger_provider.logs import JsonFormatter, call_fields
from outrigger_provider.testing import CONTEXT, served

EFFECTS = v1.KubernetesEffects(set_annotations={"example.com/a": "b"})


async def looked_up(tmp_path: Path, answer: Any, *names: str) -> dict[str, v1.InstanceResult]:
    async with served(provider(instances=Machines(answer)), tmp_path / "p.sock") as client:
        response = await client.call("BatchGetInstances", look_up(*names))
    return {result.key: result for result in response.results}


async def test_each_item_has_the_result_of_its_key(tmp_path: Path) -> None:
    answers: dict[str, Any] = {
        "found": v1.Instance(provider_id="test://found"),
        "absent": absent("terminated"),
        "young": not_visible_yet(),
        "foreign": not_managed("it is of another cloud"),
        "effects": WithEffects(absent(), EFFECTS),
        "returned": Error(Reason.MALFORMED_PROVIDER_ID, "no ID"),
    }

    def answer(call: Call, node: v1.Node) -> Any:
        if node.name == "raised":
            raise Error(Reason.CLOUD_ERROR, "422", effects=EFFECTS)
        return answers[node.name]

    results = await looked_up(tmp_path, answer, *answers, "raised")
    assert results["found"].found.provider_id == "test://found"
    assert results["absent"].absent == v1.Absent(certainty=v1.ABSENCE_CERTAINTY_CONFIRMED, reason="terminated")
    assert results["young"].absent.certainty == v1.ABSENCE_CERTAINTY_NOT_VISIBLE_YET
    assert results["foreign"].not_managed.reason == "it is of another cloud"
    assert results["effects"].effects == results["raised"].effects == EFFECTS
    assert read(results["returned"].error).reason == "MALFORMED_PROVIDER_ID"
    assert read(results["raised"].error).reason == "CLOUD_ERROR"


async def test_a_wrong_type_and_an_exception_are_errors_of_their_item_and_opaque(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def answer(call: Call, node: v1.Node) -> Any:
        if node.name == "raises":
            raise ValueError("secret")
        return {"number": 7, "nothing": None, "route": v1.Route(), "fine": not_visible_yet()}[node.name]

    results = await looked_up(tmp_path, answer, "number", "nothing", "route", "raises", "fine")
    assert results["fine"].HasField("absent")
    for name in ("number", "nothing", "route", "raises"):
        error = read(results[name].error)
        assert (error.code, error.reason) == ("INTERNAL", "")
        assert error.text == "the provider failed: look for request id r-1 in its log"
    logged = [str(record.exc_info and record.exc_info[1]) for record in caplog.records if record.levelname == "ERROR"]
    assert sorted(logged) == [
        "NoneType is no lookup of nothing",
        "Route is no lookup of route",
        "int is no lookup of number",
        "secret",
    ]


async def test_a_batch_is_answered_by_one_call_of_a_thread(tmp_path: Path) -> None:
    class Batch(Instances):
        def get_instances(self, call: Call, nodes: Sequence[v1.Node], query: Query) -> dict[str, Lookup]:
            assert threading.current_thread().name.startswith("handler")
            return {node.name: not_visible_yet() for node in nodes}

    async with served(provider(instances=Batch()), tmp_path / "p.sock") as client:
        response = await client.call("BatchGetInstances", look_up("a", "b"))
    assert [(result.key, result.HasField("absent")) for result in response.results] == [("a", True), ("b", True)]


async def test_items_that_hang_do_not_take_the_others_with_them(tmp_path: Path) -> None:
    async def answer(call: Call, node: v1.Node) -> v1.Absent:
        if node.name == "hangs":
            await asyncio.sleep(60)
        return not_visible_yet()

    async with served(provider(instances=Machines(answer)), tmp_path / "p.sock") as client:
        response = await client.call("BatchGetInstances", look_up("hangs", "a"), timeout=1)
    results = {result.key: result for result in response.results}
    assert results["a"].HasField("absent")
    assert read(results["hangs"].error).code == "DEADLINE_EXCEEDED"


class Listing(Machines):
    """Lists from an async generator."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    async def list_instances(self, call: Call, query: Query) -> Any:
        for number in range(self.count):
            yield v1.Instance(provider_id=f"test://{number}", node_name="n" * 1000)


class Iterated(Listing):
    """Lists from a generator, in a thread."""

    threads: set[str]

    def list_instances(self, call: Call, query: Query) -> Any:
        self.threads = set()
        for number in range(self.count):
            self.threads.add(threading.current_thread().name)
            yield v1.Instance(provider_id=f"test://{number}", node_name="n" * 1000)


@pytest.mark.parametrize("kind", [Listing, Iterated])
async def test_a_list_comes_in_parts_and_only_the_last_is_complete(tmp_path: Path, kind: type[Listing]) -> None:
    machines = kind(2500)
    async with served(provider(instances=machines), tmp_path / "p.sock", shakes_hands=False) as client:
        assert (await client.shake_hands()).capabilities.instances.list
        parts = [part async for part in client.call("ListInstances", v1.ListInstancesRequest())]
    assert [part.complete for part in parts] == [False] * (len(parts) - 1) + [True]
    assert len({each.provider_id for part in parts for each in part.items}) == 2500
    assert len(parts) > 1
    assert all(part.ByteSize() <= 1 << 20 for part in parts)
    if isinstance(machines, Iterated):
        assert all(name.startswith("handler") for name in machines.threads)


async def test_a_list_that_fails_is_not_complete(tmp_path: Path) -> None:
    class Failing(Machines):
        async def list_instances(self, call: Call, query: Query) -> Any:
            yield v1.Instance(provider_id="test://1")
            raise Error(Reason.CLOUD_UNAVAILABLE, "503")

    class Wrong(Machines):
        async def list_instances(self, call: Call, query: Query) -> Any:
            return [v1.Route()]

    for number, (machines, reason) in enumerate(((Failing(), "CLOUD_UNAVAILABLE"), (Wrong(), ""))):
        async with served(provider(instances=machines), tmp_path / f"{number}.sock") as client:

            async def all_parts(client: Any = client) -> None:
                async for part in client.call("ListInstances", v1.ListInstancesRequest()):
                    assert not part.complete

            assert (await failure(all_parts())).reason == reason


async def test_a_text_of_any_length_is_an_error_within_the_limit(tmp_path: Path) -> None:
    def refuse(*_: Any) -> None:
        raise Error(Reason.CLOUD_ERROR, "ä" * 5000)

    async with served(provider(load_balancers=Balancers(refuse)), tmp_path / "p.sock") as client:
        assert (await failure(client.call("EnsureLoadBalancer", ensure()))).text == "ä" * 512


async def test_a_call_without_the_uid_of_the_cluster_is_refused_unless_the_cloud_has_no_tags(tmp_path: Path) -> None:
    for without, reason in ((False, "INVALID_REQUEST"), (True, "")):
        named = provider(load_balancers=Balancers())
        named.without_cluster_id = without
        async with served(named, tmp_path / f"{without}.sock", shakes_hands=False) as client:
            cluster = v1.ClusterInfo(name=CONTEXT.cluster_name)
            await client.call("Handshake", v1.HandshakeRequest(min_minor=1, max_minor=1, cluster=cluster))
            request = ensure()
            request.context.cluster_name = CONTEXT.cluster_name
            if reason:
                assert (await failure(client.call("EnsureLoadBalancer", request))).reason == reason
            else:
                assert (await client.call("EnsureLoadBalancer", request)).answer.status.ingress


@pytest.mark.parametrize("answer", [ABSENT, NOT_MANAGED, RETAINED])
async def test_a_constant_is_an_answer_that_no_handler_can_change(tmp_path: Path, answer: Any) -> None:
    async with served(provider(load_balancers=Balancers(lambda *_: answer)), tmp_path / "p.sock") as client:
        sent = (await client.call("EnsureLoadBalancer", ensure())).answer
    assert sent == v1.LoadBalancerAnswer(disposition=answer)
    with pytest.raises(AttributeError):
        answer.message = "of another Service"


async def test_an_answer_that_is_none_is_an_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with served(provider(load_balancers=Balancers(lambda *_: "ready")), tmp_path / "p.sock") as client:
        assert (await failure(client.call("EnsureLoadBalancer", ensure()))).code == "INTERNAL"
    assert "the provider failed" in caplog.text


async def test_the_identity_of_an_earlier_answer_reaches_the_handler(tmp_path: Path) -> None:
    hints = []

    def change(call: Call, of: v1.Service, targets: Targets | None = None) -> v1.LoadBalancerAnswer:
        hints.append(call.identity.id)
        return ready("192.0.2.1", identity=v1.LoadBalancerIdentity(id="lb-1"))

    async with served(provider(load_balancers=Balancers(change)), tmp_path / "p.sock") as client:
        identity = (await client.call("EnsureLoadBalancer", ensure())).answer.identity
        update = v1.UpdateLoadBalancerNodesRequest(service=service(), targets=INLINE, identity=identity)
        assert (await client.call("UpdateLoadBalancerNodes", update)).answer.identity == identity
        await client.call("DeleteLoadBalancer", v1.DeleteLoadBalancerRequest(service=service(), identity=identity))
    assert hints == ["", "lb-1", "lb-1"]


async def test_a_service_of_another_class_is_left_alone(tmp_path: Path) -> None:
    balancers = Balancers()
    balancers.capability = v1.LoadBalancersCapability(classes=["example.com/ours"])
    async with served(provider(load_balancers=balancers), tmp_path / "p.sock") as client:
        for name, expected in (
            ("example.com/ours", ready("192.0.2.1")),
            ("example.com/other", v1.LoadBalancerAnswer(disposition=NOT_MANAGED)),
        ):
            request = ensure()
            request.service.load_balancer_class = name
            assert (await client.call("EnsureLoadBalancer", request)).answer == expected


async def test_no_service_is_invalid(tmp_path: Path) -> None:
    async with served(provider(load_balancers=Balancers()), tmp_path / "p.sock") as client:
        for name, request in (
            ("EnsureLoadBalancer", v1.EnsureLoadBalancerRequest(targets=ensure().targets)),
            ("DeleteLoadBalancer", v1.DeleteLoadBalancerRequest()),
        ):
            assert (await failure(client.call(name, request))).reason == "INVALID_REQUEST"


class Held:
    """Changes that wait, and what became of them."""

    def __init__(self) -> None:
        self.leave, self.calls, self.ended = asyncio.Event(), list[Call](), list[str]()

    async def change(self, call: Call, of: v1.Service, targets: Targets) -> v1.LoadBalancerAnswer:
        self.calls.append(call)
        try:
            await self.leave.wait()
            call.check()
        except CallerGoneError:
            self.ended.append("gone")
            raise
        except asyncio.CancelledError:
            self.ended.append("cancelled")
            raise
        self.ended.append("done")
        return ready("192.0.2.1")


@pytest.mark.parametrize("cause", ["cancel", "deadline", "connection"])
async def test_a_change_outlives_its_caller_and_holds_its_key(
    tmp_path: Path, cause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outrigger_provider.keys.PATIENCE", 0.1)
    held = Held()
    named = provider(load_balancers=Balancers(held.change))
    async with served(named, tmp_path / "p.sock") as client:
        timeout = 2 if cause == "deadline" else None
        call = client.call("EnsureLoadBalancer", ensure(), timeout=timeout)
        await until(lambda: bool(held.calls))
        if cause == "cancel":
            call.cancel()
        if cause == "connection":
            await client.channel.close(None)
            client.channel = type(client)(client.path).channel
        await until(lambda: held.calls[0].is_gone)
        busy = await failure(client.call("EnsureLoadBalancer", ensure()))
        assert busy.reason == "OPERATION_IN_PROGRESS"
        held.leave.set()
        await until(lambda: held.ended == ["gone"])
        assert (await client.call("EnsureLoadBalancer", ensure())).answer == ready("192.0.2.1")
        assert held.ended == ["gone", "done"]


async def test_a_change_in_a_thread_holds_its_key_until_it_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outrigger_provider.core.CANCEL_GRACE", 0)
    leave, begun = threading.Event(), list[Call]()

    class Sync(LoadBalancers):
        def ensure_load_balancer(self, call: Call, service: v1.Service, targets: Targets) -> v1.LoadBalancerAnswer:
            begun.append(call)
            leave.wait(30)
            return ready("192.0.2.1")

    async with served(provider(load_balancers=Sync()), tmp_path / "p.sock") as client:
        call = client.call("EnsureLoadBalancer", ensure())
        await until(lambda: bool(begun))
        call.cancel()
        await until(lambda: begun[0].is_gone)
        second = asyncio.ensure_future(client.call("EnsureLoadBalancer", ensure()))
        await client.call("GetStatus", v1.GetStatusRequest())
        await client.call("GetStatus", v1.GetStatusRequest())
        assert len(begun) == 1
        leave.set()
        assert (await second).answer == ready("192.0.2.1")
        assert len(begun) == 2


async def test_a_change_that_hangs_is_cancelled_in_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outrigger_provider.core.CANCEL_GRACE", 0.1)
    held = Held()
    async with served(provider(load_balancers=Balancers(held.change)), tmp_path / "p.sock") as client:
        client.call("EnsureLoadBalancer", ensure(), timeout=2)
        await until(lambda: held.ended == ["cancelled"])


async def test_a_lookup_ends_with_its_caller(tmp_path: Path) -> None:
    ended, begun = asyncio.Event(), asyncio.Event()

    async def answer(call: Call, node: v1.Node) -> Any:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    async with served(provider(instances=Machines(answer)), tmp_path / "p.sock") as client:
        call = client.call("BatchGetInstances", look_up("a"))
        await begun.wait()
        call.cancel()
        await asyncio.wait_for(ended.wait(), 30)


async def test_no_more_services_are_worked_on_than_the_provider_takes(tmp_path: Path) -> None:
    held = Held()
    balancers = Balancers(held.change)
    balancers.capability = v1.LoadBalancersCapability(max_in_flight=2)
    async with served(provider(load_balancers=balancers), tmp_path / "p.sock") as client:
        calls = [asyncio.ensure_future(client.call("EnsureLoadBalancer", ensure(f"uid-{n}"))) for n in range(5)]
        await until(lambda: len(held.calls) == 2)
        await client.call("GetStatus", v1.GetStatusRequest())
        await client.call("GetStatus", v1.GetStatusRequest())
        assert len(held.calls) == 2
        held.leave.set()
        await asyncio.gather(*calls)


async def test_calls_that_hang_are_dropped_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outrigger_provider.server.PATIENCE", 0.1)
    monkeypatch.setattr("outrigger_provider.server.HANG_UP", 0.1)
    monkeypatch.setattr("outrigger_provider.server.GRACE", 0.1)
    held = Held()
    async with served(provider(load_balancers=Balancers(held.change)), tmp_path / "p.sock") as client:
        call = asyncio.ensure_future(client.call("EnsureLoadBalancer", ensure()))
        await until(lambda: bool(held.calls))
        began = time.monotonic()
        client.channel, channel = type(client)(client.path).channel, client.channel
    assert held.calls[0].is_gone
    assert time.monotonic() - began < 10
    assert (await failure(call)).code in ("UNAVAILABLE", "CANCELLED")
    await channel.close(None)


async def test_routes_are_changed_one_at_a_time_for_each_destination(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outrigger_provider.keys.PATIENCE", 0.1)
    leave, begun = asyncio.Event(), []

    async def change(call: Call, route: v1.Route) -> Any:
        begun.append(route.destination_cidr)
        if route.destination_cidr.startswith("fd00"):
            await leave.wait()
        if route.destination_cidr == "10.0.2.0/24":
            raise Error(Reason.CONFLICTING_RESOURCE, "it leads elsewhere")
        made = v1.Route(name="r-1", destination_cidr=route.destination_cidr)
        return WithEffects(made, EFFECTS) if route.node_name == "named" else None

    def create(cidr: str, node: str = "") -> v1.CreateRouteRequest:
        return v1.CreateRouteRequest(route=v1.Route(destination_cidr=cidr, node_name=node))

    async with served(provider(routes=Table(change)), tmp_path / "p.sock") as client:
        delete = v1.DeleteRouteRequest(route=v1.Route(destination_cidr="fd00:0:0::/64"))
        busy = asyncio.ensure_future(client.call("DeleteRoute", delete))
        await until(lambda: bool(begun))
        unnamed = await client.call("CreateRoute", create("10.0.0.0/24"))
        assert unnamed.HasField("found")
        assert unnamed.found == v1.Route()
        named = await client.call("CreateRoute", create("10.0.1.0/24", "named"))
        assert (named.found.name, named.effects) == ("r-1", EFFECTS)
        refused = await failure(client.call("CreateRoute", create("10.0.2.0/24")))
        assert refused.reason == "CONFLICTING_RESOURCE"
        refused = await failure(client.call("CreateRoute", create("fd00::/64")))
        assert refused.reason == "OPERATION_IN_PROGRESS"
        leave.set()
        assert (await busy).HasField("absent")
        parts = [part async for part in client.call("ListRoutes", v1.ListRoutesRequest())]
        assert [part.complete for part in parts] == [True]


async def test_lines_of_a_call_carry_its_request_id(tmp_path: Path) -> None:
    lines = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(json.loads(JsonFormatter().format(record)))

    def answer(call: Call, node: v1.Node) -> v1.Absent:
        logging.getLogger("cloud").warning("asked about %s", node.name, extra={"zone": "z"})
        return not_visible_yet()

    logging.getLogger("cloud").addHandler(handler := Handler())
    named = provider(instances=Machines(answer))
    async with served(named, tmp_path / "p.sock") as client:
        method = METHODS["BatchGetInstances"]
        call: Any = client.channel.unary_unary(method.path, lambda each: each.SerializeToString())
        request = look_up("a")
        request.context.CopyFrom(CONTEXT)
        traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        await call(request, metadata=grpc.aio.Metadata(("traceparent", traceparent)))
    logging.getLogger("cloud").removeHandler(handler)
    assert call_fields.get() is None
    expected = {
        "level": "WARN",
        "logger": "cloud",
        "message": "asked about a",
        "zone": "z",
        "rpc": "BatchGetInstances",
        "request_id": "r-1",
        "traceparent": traceparent,
    }
    assert {name: value for name, value in lines[0].items() if name != "timestamp"} == expected
    assert lines[0]["timestamp"].endswith("Z")
