"""The life of the server, from its socket to its graceful end."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import grpc
from grpc_health.v1.health_pb2_grpc import add_HealthServicer_to_server

from .core import Core
from .health import Health, target_of
from .identity import ProviderRpc
from .instances import InstancesRpc
from .load_balancers import LoadBalancersRpc
from .logs import logger
from .node_sets import NodeSets
from .provider import Provider
from .routes import RoutesRpc
from .rpcs import handlers
from .socket_file import SocketError, identity, prepared
from .volumes import VolumesRpc

# Seconds, together less than the 30 that Kubernetes gives a Pod: calls end by themselves, then answers are read and the
# callers of what still runs count as gone, then that ends.
PATIENCE, HANG_UP, GRACE = 20.0, 2.0, 5.0
# Seconds between two looks at the socket's file, and at how late they are.
LOOK = 0.5


async def serve(provider: Provider, path: Path, stop: asyncio.Event) -> None:
    """Serves until `stop`.

    The socket appears with mode 0660 once calls are answered. After `stop` new calls get SHUTTING_DOWN, and running
    ones have 20 s to end and 5 s more once their callers count as gone. Raises SocketError where the socket cannot be
    made, or has gone while it was served.
    """
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(provider.threads, "handler"))
    core = Core(provider)
    rpc = ProviderRpc(core)
    services = _services(provider, rpc)
    offered = provider.capabilities()
    optional = {
        "ListInstances": offered.instances.list,
        "ListLoadBalancers": offered.load_balancers.list,
        "PlanLoadBalancer": offered.load_balancers.plan,
    }
    unserved = {name for name, is_offered in optional.items() if not is_offered}
    server = grpc.aio.server(options=[("grpc.max_receive_message_length", provider.max_message_bytes)])
    server.add_generic_rpc_handlers(
        tuple(handlers(core, name, service, unserved) for name, service in services.items())
    )
    add_HealthServicer_to_server(Health(rpc.is_serving, {f"cloudprovider.v1.{name}" for name in services}), server)
    async with prepared(path) as temporary:
        server.add_insecure_port(target_of(temporary))
        await server.start()
    ours = identity(path)
    fields = {"path": str(path), "provider": provider.name, "version": provider.version, "boot_id": core.boot_id}
    logger.info("serving", extra=fields)
    while not stop.is_set() and identity(path) == ours:
        await _look(stop)
    core.is_stopping = True
    if left := await core.drain(PATIENCE):
        logger.info("calls are still running; their callers count as gone", extra={"running": left})
    is_there = ours == identity(path)
    if is_there:
        path.unlink()  # noqa: ASYNC240
    await server.stop(HANG_UP)
    if left := await core.drain(GRACE):
        logger.warning("calls still run and are dropped", extra={"running": left})
    logger.info("stopped")
    if not is_there:
        raise SocketError(f"the socket {path} was removed or replaced while it was served")


def _services(provider: Provider, rpc: ProviderRpc) -> dict[str, object]:
    services: dict[str, object] = {"ProviderService": rpc}
    if provider.instances:
        services["InstancesService"] = InstancesRpc(provider.instances)
    if provider.load_balancers:
        services["NodeSetsService"] = node_sets = NodeSets()
        services["LoadBalancersService"] = LoadBalancersRpc(provider.load_balancers, node_sets)
    if provider.routes:
        services["RoutesService"] = RoutesRpc(provider.routes)
    if provider.volumes:
        services["VolumesService"] = VolumesRpc(provider.volumes)
    return services


async def _look(stop: asyncio.Event) -> None:
    """Waits for `stop` until the next look. A look that comes late is the work of a handler that awaits nothing."""
    began = time.monotonic()
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), LOOK)
    if (late := time.monotonic() - began - LOOK) > LOOK:
        text = "a handler has blocked the event loop, so that no call was answered meanwhile: await, or write def"
        logger.error(f"{text}; with PYTHONASYNCIODEBUG=1 the log names it", extra={"seconds": round(late, 1)})
