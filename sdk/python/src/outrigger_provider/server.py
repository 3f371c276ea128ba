"""The life of the server, from its socket to its graceful end."""

import asyncio
from pathlib import Path

import grpc
from grpc_health.v1.health_pb2_grpc import add_HealthServicer_to_server

from .core import Core
from .health import Health
from .identity import ProviderRpc
from .instances import InstancesRpc
from .load_balancers import LoadBalancersRpc
from .logs import logger
from .node_sets import NodeSets, NodeSetsRpc
from .probe import target_of
from .provider import Provider
from .routes import RoutesRpc
from .rpcs import Rpcs
from .socket_file import SocketError, identity, prepared
from .volumes import VolumesRpc
from .watchdog import Watchdog

# Seconds, together less than the 30 that Kubernetes gives a Pod: calls end by themselves, then their callers count as
# gone, then answers are read.
PATIENCE, GRACE, HANG_UP = 20.0, 5.0, 2.0
# Seconds between two looks at the socket's file.
LOOK = 1.0


async def serve(provider: Provider, path: Path, stop: asyncio.Event) -> None:
    """Serves until `stop`.

    The socket appears with mode 0660 once calls are answered. After `stop` new calls get SHUTTING_DOWN, and running
    ones have 20 s to end and 5 s more once their callers count as gone. Raises SocketError where the socket cannot be
    made, or has gone while it was served, and ProviderError for a declaration that is not legal.
    """
    core = Core(provider)
    rpc = ProviderRpc(core)
    services, unserved = _services(core, rpc)
    # gRPC's own limit has no reason of the contract, so ours is met first.
    options = [("grpc.max_receive_message_length", min(4 * provider.max_message_bytes, (1 << 31) - 1))]
    server = grpc.aio.server(options=options)
    server.add_generic_rpc_handlers((Rpcs(core, services, unserved),))
    add_HealthServicer_to_server(Health(rpc.is_serving, lambda: core.is_stopping, set(services)), server)
    async with prepared(path) as temporary:
        server.add_insecure_port(target_of(temporary))
        await server.start()
    ours = identity(path)
    fields = {"path": str(path), "provider": provider.name, "version": provider.version, "boot_id": core.boot_id}
    logger.info("serving", extra=fields)
    watchdog = Watchdog(asyncio.get_running_loop())
    try:
        is_there = await _until(stop, path, ours)
        core.is_stopping = True
        if left := await core.running(PATIENCE):
            logger.info("calls are still running; their callers count as gone", extra={"running": left})
            for call in list(core.calls):
                core.leave(call)
            if left := await core.running(GRACE):
                logger.warning("calls still run and are dropped", extra={"running": left})
        if ours == identity(path):
            path.unlink()  # noqa: ASYNC240
        await server.stop(HANG_UP)
        logger.info("stopped")
        if not is_there:
            raise SocketError(f"the socket {path} was removed or replaced while it was served")
    finally:
        watchdog.close()
        core.executor.shutdown(wait=False, cancel_futures=True)


def _services(core: Core, rpc: ProviderRpc) -> tuple[dict[str, object], set[str]]:
    """The services that are offered by their names, and the optional methods that are not."""
    provider, offered = core.provider, core.offered
    services: dict[str, object] = {"ProviderService": rpc}
    if provider.instances:
        services["InstancesService"] = InstancesRpc(provider.instances)
    if provider.load_balancers:
        node_sets = NodeSets()
        services["NodeSetsService"] = NodeSetsRpc(node_sets)
        services["LoadBalancersService"] = LoadBalancersRpc(provider.load_balancers, node_sets)
    if provider.routes:
        services["RoutesService"] = RoutesRpc(provider.routes)
    if provider.volumes:
        services["VolumesService"] = VolumesRpc(provider.volumes)
    optional = {
        "ListInstances": offered.instances.list,
        "ListLoadBalancers": offered.load_balancers.list,
        "PlanLoadBalancer": offered.load_balancers.plan,
    }
    named = {f"cloudprovider.v1.{name}": service for name, service in services.items()}
    return named, {name for name, is_offered in optional.items() if not is_offered}


async def _until(stop: asyncio.Event, path: Path, ours: tuple[int, int] | None) -> bool:
    """Waits; whether the socket is still there at the end."""
    while not stop.is_set():
        try:
            await asyncio.wait_for(stop.wait(), LOOK)
        except TimeoutError:
            if identity(path) != ours:
                logger.error(
                    "the socket is gone, so that no controller finds this provider: ending", extra={"path": str(path)}
                )
                return False
    return True
