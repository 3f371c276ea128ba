"""The life of the server, from its socket to its graceful end."""

import asyncio
import logging
import urllib.parse
from pathlib import Path

import grpc
from grpc_health.v1.health import aio as health
from grpc_health.v1.health_pb2 import HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import add_HealthServicer_to_server

from cloudprovider.v1.instances_pb2_grpc import add_InstancesServiceServicer_to_server
from cloudprovider.v1.load_balancers_pb2_grpc import add_LoadBalancersServiceServicer_to_server
from cloudprovider.v1.node_sets_pb2_grpc import add_NodeSetsServiceServicer_to_server
from cloudprovider.v1.provider_pb2_grpc import add_ProviderServiceServicer_to_server

from .calls import Changes, Gate
from .cloud import Cloud
from .instances import Instances
from .load_balancers import LoadBalancers
from .node_sets import NodeSets
from .provider import MAX_RECEIVE_BYTES, Provider
from .socket_file import identity, prepared

# Together less than the 30 s that Kubernetes gives a Pod.
CALLS_END_S = 20
CHANGES_END_S = 5


async def serve(cloud: Cloud, path: Path, stop: asyncio.Event) -> None:
    """Serves until `stop`. Then no call begins, and those that run, and their changes, end."""
    gate, changes, healthy = Gate(), Changes(), health.HealthServicer()
    node_sets = NodeSets(gate)
    # The handshake names the limit; gRPC's own is 4 MiB.
    options = [("grpc.max_receive_message_length", MAX_RECEIVE_BYTES)]
    server = grpc.aio.server(interceptors=[gate], options=options)
    add_ProviderServiceServicer_to_server(Provider(gate), server)
    add_InstancesServiceServicer_to_server(Instances(cloud), server)
    add_NodeSetsServiceServicer_to_server(node_sets, server)
    # Abstract for mypy: List and Plan, which are optional, answer UNIMPLEMENTED.
    load_balancers = LoadBalancers(cloud, node_sets, changes)  # type: ignore[abstract]
    add_LoadBalancersServiceServicer_to_server(load_balancers, server)
    add_HealthServicer_to_server(healthy, server)
    await healthy.set("", HealthCheckResponse.SERVING)
    with prepared(path) as temporary:
        server.add_insecure_port(f"unix:{urllib.parse.quote(str(temporary))}")
        await server.start()
    ours = identity(path)
    logging.info("serving at %s", path)

    await stop.wait()
    logging.info("ending: %d calls in flight have %d s", len(gate.running), CALLS_END_S)
    gate.stopping = True
    await healthy.enter_graceful_shutdown()
    if ours == identity(path):
        path.unlink()  # noqa: ASYNC240
    if gate.running:
        await asyncio.wait(gate.running, timeout=CALLS_END_S)
    await server.stop(0)
    if changes.running:
        await asyncio.wait(changes.running.values(), timeout=CHANGES_END_S)
