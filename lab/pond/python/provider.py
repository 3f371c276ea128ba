"""Pond as a provider, with the SDK for Python. POND is the URL of the cloud, POND_TOKEN its token."""

import json
import os
import re
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any

from outrigger_provider import (
    ABSENT,
    Answer,
    Call,
    Dependencies,
    Error,
    Instances,
    LoadBalancers,
    Lookup,
    Provider,
    Query,
    Reason,
    Targets,
    absent,
    differs,
    main,
    not_managed,
    ready,
    v1,
)

SCHEME = "pond://"
WORKING = Dependencies("cloud-api", "credentials")
REASONS = {
    401: Reason.CREDENTIALS_INVALID,
    409: Reason.CONFLICT,
    422: Reason.QUOTA_EXCEEDED,
    429: Reason.RATE_LIMITED,
    503: Reason.CLOUD_UNAVAILABLE,
}


def pond(call: Call, method: str, path: str, body: object = None) -> Any:
    """One request to the cloud. A status of a failure is an error with the reason that it means."""
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request(os.environ["POND"] + path, data, method=method)
    request.add_header("Authorization", f"Bearer {os.environ['POND_TOKEN']}")
    try:
        with urllib.request.urlopen(request, timeout=min(call.remaining() or 10, 10)) as response:
            answer = json.load(response)
        WORKING.works("cloud-api", "credentials")
        return answer
    except urllib.error.HTTPError as error:
        pause = float(error.headers.get("Retry-After", 0))
        text = f"Pond: {json.load(error)['error']}"
        if error.code in (401, 503):
            WORKING.fails("credentials" if error.code == 401 else "cloud-api", text)
        raise Error(REASONS.get(error.code, Reason.CLOUD_ERROR), text, retry_after=pause) from error
    except OSError as error:
        WORKING.fails("cloud-api", "it does not answer")
        raise Error(Reason.CLOUD_UNAVAILABLE, "Pond does not answer") from error


class Machines(Instances):
    """The machines behind Nodes, by one list for a batch."""

    def get_instances(self, call: Call, nodes: Sequence[v1.Node], query: Query) -> Mapping[str, Lookup]:
        machines = pond(call, "GET", "/machines")
        return {node.name: find(machines, node) for node in nodes}


def find(machines: list[dict[str, Any]], node: v1.Node) -> Lookup:
    """By the provider ID, or by the name where there is none yet."""
    key, name = ("id", node.provider_id.removeprefix(SCHEME)) if node.provider_id else ("name", node.name)
    if node.provider_id and not node.provider_id.startswith(SCHEME):
        return not_managed(f"{node.provider_id} is another cloud's")
    if key == "id" and not re.fullmatch("m-[0-9]+", name):
        return Error(Reason.MALFORMED_PROVIDER_ID, f"{node.provider_id} is no ID of Pond")
    for machine in machines:
        if machine[key] == name:
            state = v1.POWER_STATE_RUNNING if machine["on"] else v1.POWER_STATE_SHUTDOWN
            instance = v1.Instance(provider_id=SCHEME + machine["id"], power_state=state, zone=machine["zone"])
            instance.node_name = machine["name"]
            instance.addresses.add(type="InternalIP", address=machine["address"])
            return instance
    # The Node may be deleted: the same list shows others. An empty list may be another account's.
    return absent() if machines else Error(Reason.CLOUD_ERROR, "Pond shows no machine at all")


class Balancers(LoadBalancers):
    """The load balancers of Services, found by two tags that the creating request writes."""

    def get_load_balancer(self, call: Call, service: v1.Service, targets: Targets | None) -> Answer:
        balancer = tagged(call, service)
        if balancer is None:
            return ABSENT
        spec = desired(service, balancer["targets"] if targets is None else targets.addresses())
        is_same = all(balancer[key] == value for key, value in spec.items())
        return ready(balancer["address"]) if is_same else differs("ports, health check or targets")

    def ensure_load_balancer(self, call: Call, service: v1.Service, targets: Targets) -> Answer:
        spec, balancer = desired(service, targets.addresses()), tagged(call, service)
        call.check()
        if balancer is None:
            balancer = pond(call, "POST", "/balancers", spec | tags(call, service))
        elif any(balancer[key] != value for key, value in spec.items()):
            balancer = pond(call, "PUT", f"/balancers/{balancer['id']}", spec)
        return ready(balancer["address"])

    def update_load_balancer_nodes(self, call: Call, service: v1.Service, targets: Targets) -> Answer:
        balancer = tagged(call, service)
        if balancer is None:
            return ABSENT
        call.check()
        pond(call, "PUT", f"/balancers/{balancer['id']}", {"targets": sorted(targets.addresses())})
        return ready(balancer["address"])

    def delete_load_balancer(self, call: Call, service: v1.Service) -> Answer:
        balancer = tagged(call, service)
        if balancer is not None:
            call.check()
            pond(call, "DELETE", f"/balancers/{balancer['id']}")
        return ABSENT


def tags(call: Call, service: v1.Service) -> dict[str, str]:
    """The cluster and the Service that own a load balancer."""
    return {"cluster": call.cluster.uid, "service": service.uid}


def tagged(call: Call, service: v1.Service) -> Any:
    """The load balancer of a Service: Pond refuses a second with the same tags."""
    balancers = pond(call, "GET", f"/balancers?cluster={call.cluster.uid}&service={service.uid}")
    return balancers[0] if balancers else None


def desired(service: v1.Service, targets: list[str]) -> dict[str, Any]:
    """The one translation of a Service, for Get and Ensure. It refuses what Pond cannot serve."""
    for name, is_in_service in {
        "choice of addresses": service.load_balancer_ip,
        "session affinity": service.session_affinity == "ClientIP",
        "source ranges": service.load_balancer_source_ranges,
        "IPv6": service.ip_families[:1] == ["IPv6"] or service.ip_family_policy == "RequireDualStack",
        "way to a port without a node port": not all(port.node_port for port in service.ports),
    }.items():
        if is_in_service:
            raise Error(Reason.UNSUPPORTED_FEATURE, f"Pond has no {name}")
    for port in service.ports:
        if port.protocol != "TCP":
            raise Error(Reason.UNSUPPORTED_PROTOCOL, f"Pond cannot serve {port.protocol}/{port.port}")
    ports = [{"port": port.port, "node_port": port.node_port} for port in service.ports]
    return {"ports": ports, "check": service.health_check_node_port or 10256, "targets": sorted(targets)}


if __name__ == "__main__":
    main(
        Provider(
            "pond",
            "0.1.0",
            instances=Machines(),
            load_balancers=Balancers(),
            status=WORKING.status,
            service_annotation_prefixes=["pond.example/"],
        )
    )
