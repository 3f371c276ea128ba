"""Calls: their results, errors, limits, and what is left of them when their caller goes away."""

import asyncio
import json
import logging
import threading
import time
from pathlib import Path
from typing import Any

import grpc
import pytest
from conftest import Balancers, Disks, Machines, Table, ensure, look_up, provider, service, until
from errors import failure, read

from outrigger_provider import (
    NOT_MANAGED,
    Call,
    CallerGoneError,
    Error,
    Instances,
    LoadBalancers,
    Lookup,
    ProviderError,
    Query,
    Reason,
    Routes,
    Targets,
    WithEffects,
    absent,
    in_progress,
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
        "cached": absent(age=3600),
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
    assert results["cached"].absent.certainty == v1.ABSENCE_CERTAINTY_NOT_VISIBLE_YET
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
        "Machines has answered NoneType about 'nothing', and not Instance or another outcome",
        "Machines has answered Route about 'route', and not Instance or another outcome",
        "Machines has answered int about 'number', and not Instance or another outcome",
        "secret",
    ]


class Batch(Instances):
    """Answers a batch as a test says."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def get_instances(self, call: Call, nodes: Any, query: Query) -> Any:
        return self.answer


async def test_a_batch_without_some_results_has_errors_in_their_place(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    answer = {"a": not_visible_yet(), "other": not_visible_yet()}
    async with served(provider(instances=Batch(answer)), tmp_path / "p.sock") as client:
        response = await client.call("BatchGetInstances", look_up("a", "b"))
    assert [result.key for result in response.results] == ["a", "b"]
    assert read(response.results[1].error).code == "INTERNAL"
    assert "Batch has no result for 'b'" in caplog.text
    assert "for an item that the request does not have" in caplog.text


async def test_a_batch_that_is_no_mapping_fails_whole(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with served(provider(instances=Batch(["a"])), tmp_path / "p.sock") as client:
        failed = await failure(client.call("BatchGetInstances", look_up("a")))
        assert (failed.code, failed.reason) == ("INTERNAL", "")
        # The next call is served.
        assert (await client.call("GetStatus", v1.GetStatusRequest())).boot_id
    assert "Batch has answered list, and not a mapping" in caplog.text


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


async def test_an_error_of_the_whole_class_stops_the_batch(tmp_path: Path) -> None:
    calls = []

    def answer(call: Call, node: v1.Node) -> Any:
        calls.append(node.name)
        raise Error(Reason.RATE_LIMITED, "slow down", retry_after=7, effects=EFFECTS)

    machines = Machines(answer)
    machines.concurrency = 1
    async with served(provider(instances=machines), tmp_path / "p.sock") as client:
        response = await client.call("BatchGetInstances", look_up("a", "b", "c"))
    assert len(calls) == 1
    failures = [read(result.error) for result in response.results]
    assert {(each.reason, each.retry_after) for each in failures} == {("RATE_LIMITED", 7)}
    assert [result.HasField("effects") for result in response.results].count(True) == 1


async def test_a_query_is_read_and_a_later_view_is_everything(tmp_path: Path) -> None:
    queries = []

    class Asked(Machines):
        async def get_instance(self, call: Call, node: v1.Node, query: Query) -> Lookup:
            queries.append(query)
            return not_visible_yet()

    async with served(provider(instances=Asked()), tmp_path / "p.sock") as client:
        for view in (v1.INSTANCE_VIEW_STATE, v1.INSTANCE_VIEW_UNSPECIFIED, 99):
            request = look_up("a")
            request.max_staleness.seconds, request.view = 3, view  # type: ignore[assignment]
            await client.call("BatchGetInstances", request)
    assert [query.view for query in queries] == [v1.INSTANCE_VIEW_STATE] + 2 * [v1.INSTANCE_VIEW_FULL]
    assert queries[0].max_staleness.total_seconds() == 3


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


async def test_what_is_not_implemented_is_neither_offered_nor_served(tmp_path: Path) -> None:
    named = provider(instances=Machines(), load_balancers=Balancers())
    async with served(named, tmp_path / "p.sock", shakes_hands=False) as client:
        offered = (await client.shake_hands()).capabilities
        assert (offered.instances.list, offered.instances.max_batch_size) == (False, 100)
        assert (offered.load_balancers.list, offered.load_balancers.plan) == (False, False)
        assert (offered.node_sets.deltas, offered.HasField("routes"), offered.HasField("volumes")) == (
            True,
            False,
            False,
        )
        for name, request in (
            ("BatchGetVolumes", v1.BatchGetVolumesRequest()),
            ("PlanLoadBalancer", v1.PlanLoadBalancerRequest()),
        ):
            refused = await failure(client.call(name, request))
            assert (refused.code, refused.reason) == ("UNIMPLEMENTED", "CAPABILITY_DISABLED")
        unknown: Any = client.channel.unary_unary("/cloudprovider.v2.Other/Call")
        assert (await failure(unknown(b""))).code == "UNIMPLEMENTED"


def test_a_service_with_none_of_its_methods_is_refused() -> None:
    with pytest.raises(ProviderError, match="Instances has neither get_instance nor get_instances"):
        provider(instances=Instances()).check()
    with pytest.raises(ProviderError, match="Routes has neither create_route nor create_routes"):
        provider(routes=Routes()).check()


async def test_requests_that_are_too_large_or_unreadable_are_invalid(tmp_path: Path) -> None:
    named = provider(instances=Machines(lambda call, node: not_visible_yet()))
    named.max_message_bytes = 6 << 20
    async with served(named, tmp_path / "p.sock") as client:
        # More than gRPC takes by itself.
        request = look_up("a")
        request.items[0].annotations["a"] = "x" * (5 << 20)
        assert len((await client.call("BatchGetInstances", request)).results) == 1
        request.items[0].annotations["a"] = "x" * (6 << 20)
        refused = await failure(client.call("BatchGetInstances", request))
        assert (refused.reason, "is larger than" in refused.text) == ("INVALID_REQUEST", True)
        raw: Any = client.channel.unary_unary(METHODS["BatchGetInstances"].path)
        assert (await failure(raw(b"\xff"))).reason == "INVALID_REQUEST"
        assert (await client.call("GetStatus", v1.GetStatusRequest())).boot_id


async def test_effects_are_left_out_of_an_answer_that_is_too_large(tmp_path: Path) -> None:
    large = v1.KubernetesEffects(set_annotations={"a": "x" * 3000})
    named = provider(instances=Machines(lambda call, node: WithEffects(not_visible_yet(), large)))
    async with served(named, tmp_path / "p.sock", shakes_hands=False) as client:
        cluster = v1.ClusterInfo(name=CONTEXT.cluster_name)
        handshake = v1.HandshakeRequest(min_minor=1, max_minor=1, cluster=cluster, max_receive_message_bytes=4000)
        await client.call("Handshake", handshake)
        assert (await client.call("BatchGetInstances", look_up("a"))).results[0].HasField("effects")
        response = await client.call("BatchGetInstances", look_up("a", "b"))
        assert [result.HasField("effects") for result in response.results] == [False, False]
        too_large = await failure(client.call("BatchGetInstances", look_up("a" * 4000)))
        assert (too_large.code, too_large.reason) == ("INTERNAL", "")


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


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ("ready", "Balancers.ensure_load_balancer has answered str, and not LoadBalancerAnswer"),
        (ready(), "without an address"),
        (v1.LoadBalancerAnswer(), "LOAD_BALANCER_DISPOSITION_UNSPECIFIED, which is no answer to EnsureLoadBalancer"),
    ],
)
async def test_a_wrong_answer_about_a_load_balancer_is_an_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, answer: Any, says: str
) -> None:
    named = provider(load_balancers=Balancers(lambda call, service, targets: answer))
    async with served(named, tmp_path / "p.sock") as client:
        assert (await failure(client.call("EnsureLoadBalancer", ensure()))).code == "INTERNAL"
    assert says in caplog.text


async def test_answers_stay_within_their_limits(tmp_path: Path) -> None:
    answer = in_progress(3600)
    answer.reason, answer.message = "r" * 200, "m" * 2000
    named = provider(load_balancers=Balancers(lambda call, service, targets: answer))
    async with served(named, tmp_path / "p.sock") as client:
        sent = (await client.call("EnsureLoadBalancer", ensure())).answer
    assert (sent.retry_after.seconds, len(sent.reason.encode()), len(sent.message.encode())) == (300, 128, 1024)


async def test_a_service_of_another_class_is_left_alone(tmp_path: Path) -> None:
    balancers = Balancers()
    balancers.capability = v1.LoadBalancersCapability(classes=["example.com/ours"])
    async with served(provider(load_balancers=balancers), tmp_path / "p.sock") as client:
        for name, expected in (("example.com/ours", ready("192.0.2.1")), ("example.com/other", NOT_MANAGED)):
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


async def test_an_update_answers_each_service_as_it_comes(tmp_path: Path) -> None:
    leave = asyncio.Event()

    async def change(call: Call, of: v1.Service, targets: Targets) -> Any:
        if of.uid == "slow":
            await leave.wait()
        if of.uid == "fails":
            raise Error(Reason.CONFLICT, "lost")
        return ready()

    request = v1.UpdateLoadBalancerNodesRequest(
        items=[service("slow"), service("fast"), service("fails")], targets=ensure().targets
    )
    async with served(provider(load_balancers=Balancers(change)), tmp_path / "p.sock") as client:
        keys = []
        async for part in client.call("UpdateLoadBalancerNodes", request):
            keys += [result.key for result in part.results]
            for result in part.results:
                assert result.key != "fails" or read(result.error).reason == "CONFLICT"
            if len(keys) == 2:
                leave.set()
    assert keys[-1] == "slow"
    assert len(keys) == 3


class Held:
    """Changes that wait, and what became of them."""

    def __init__(self) -> None:
        self.leave, self.calls, self.ended = asyncio.Event(), list[Call](), list[str]()

    async def change(self, call: Call, of: v1.Service, targets: Targets) -> v1.LoadBalancerAnswer:
        self.calls.append(call)
        await self.leave.wait()
        try:
            call.check()
        except CallerGoneError:
            self.ended.append("gone")
            raise
        self.ended.append("done")
        return ready("192.0.2.1")


@pytest.mark.parametrize("cause", ["cancel", "deadline", "connection"])
async def test_a_change_outlives_its_caller_and_holds_its_key(
    tmp_path: Path, cause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outrigger_provider.load_balancers.KEY_PATIENCE", 0.1)
    held = Held()
    named = provider(load_balancers=Balancers(held.change))
    async with served(named, tmp_path / "p.sock") as client:
        timeout = 0.3 if cause == "deadline" else None
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
        client.call("EnsureLoadBalancer", ensure(), timeout=0.1)
        await until(lambda: bool(held.calls) and not held.calls[0].tasks)
    assert held.ended == []


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


async def test_routes_are_changed_one_at_a_time_for_each_destination(tmp_path: Path) -> None:
    leave, begun = asyncio.Event(), []

    async def change(call: Call, route: v1.Route) -> Any:
        begun.append(route.destination_cidr)
        if route.destination_cidr.startswith("fd00"):
            await leave.wait()
        if route.destination_cidr == "10.0.2.0/24":
            raise Error(Reason.CONFLICTING_RESOURCE, "it leads elsewhere")
        return v1.Route(name="r-1", destination_cidr=route.destination_cidr) if route.node_name == "named" else None

    def routes(*cidrs: str) -> list[v1.Route]:
        return [v1.Route(destination_cidr=cidr, node_name="named" if cidr == "10.0.1.0/24" else "") for cidr in cidrs]

    async with served(provider(routes=Table(change)), tmp_path / "p.sock") as client:
        busy = asyncio.ensure_future(
            client.call("BatchDeleteRoutes", v1.BatchDeleteRoutesRequest(items=routes("fd00:0:0::/64")))
        )
        await until(lambda: bool(begun))
        cidrs = ("10.0.0.0/24", "10.0.1.0/24", "10.0.2.0/24", "fd00::/64")
        response = await client.call("BatchCreateRoutes", v1.BatchCreateRoutesRequest(items=routes(*cidrs)))
        results = {result.key: result for result in response.results}
        assert results["10.0.0.0/24"].found == v1.Route()
        assert results["10.0.1.0/24"].found.name == "r-1"
        assert read(results["10.0.2.0/24"].error).reason == "CONFLICTING_RESOURCE"
        refused = read(results["fd00::/64"].error)
        assert (refused.reason, refused.retry_after) == ("OPERATION_IN_PROGRESS", 1)
        leave.set()
        assert (await busy).results[0].HasField("absent")
        parts = [part async for part in client.call("ListRoutes", v1.ListRoutesRequest())]
        assert [part.complete for part in parts] == [True]


async def test_volumes_are_looked_up(tmp_path: Path) -> None:
    topology = v1.VolumeTopology(labels={"topology.kubernetes.io/zone": "z"})
    async with served(provider(volumes=Disks(lambda call, volume: topology)), tmp_path / "p.sock") as client:
        response = await client.call("BatchGetVolumes", v1.BatchGetVolumesRequest(items=[v1.Volume(key="k")]))
    assert (response.results[0].key, response.results[0].found) == ("k", topology)


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
