"""The command line of a provider: serve and probe, exit codes and signals."""

import argparse
import asyncio
import inspect
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NoReturn

from .health import probe
from .logs import init_logging, logger
from .provider import Provider
from .server import serve
from .socket_file import DEFAULT_ENDPOINT, ENDPOINT_VARIABLE, SocketError, path_of

Build = Callable[[argparse.Namespace], Provider | Awaitable[Provider]]


def main(
    build: Provider | Build,
    *,
    arguments: Callable[[argparse.ArgumentParser], None] | None = None,
    argv: list[str] | None = None,
) -> NoReturn:
    """Serves a provider until SIGTERM or SIGINT, or asks the one that serves with the command `probe`; then exits.

    `build` makes the provider, before the socket appears, from the arguments of the command line; `arguments` adds the
    author's own. Exit codes: 0 after a signal, 1 where the provider cannot be built or served, 2 for arguments that
    are wrong. A second signal ends the process immediately.
    """
    given = _parser(arguments).parse_args(argv)
    try:
        path = path_of(given.endpoint)
    except SocketError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    if given.command == "probe":
        succeeds, sentence = asyncio.run(probe(path, is_readiness=given.ready, seconds=given.timeout))
        print(sentence, file=sys.stdout if succeeds else sys.stderr)
        sys.exit(not succeeds)
    init_logging()
    with asyncio.Runner() as runner:
        code = runner.run(_serve(build, given, path))
        sys.stdout.flush()
        sys.stderr.flush()
        # A handler that hangs in a cloud call, in a thread perhaps, must not keep the process.
        os._exit(code)


def _parser(arguments: Callable[[argparse.ArgumentParser], None] | None) -> argparse.ArgumentParser:
    endpoint = os.environ.get(ENDPOINT_VARIABLE) or DEFAULT_ENDPOINT
    parser = argparse.ArgumentParser(description="A cloud provider for Outrigger.")
    parser.add_argument("command", nargs="?", choices=["serve", "probe"], default="serve", help="serve is the default")
    text = f"socket of the provider, unix:///absolute/path; also ${ENDPOINT_VARIABLE} (default: {endpoint})"
    parser.add_argument("--endpoint", default=endpoint, help=text)
    asking = parser.add_argument_group("probe")
    asking.add_argument("--ready", action="store_true", help="fail also while the provider is starting")
    asking.add_argument("--timeout", type=float, default=4, help="seconds to wait (default: 4)")
    if arguments:
        arguments(parser)
    return parser


async def _serve(build: Provider | Build, given: argparse.Namespace, path: Path) -> int:
    # Before the author's code runs: process 1 of a container ignores each signal that it does not catch.
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    building = asyncio.create_task(_built(build, given))

    def end(number: signal.Signals) -> None:
        # A second signal ends the process immediately.
        loop.remove_signal_handler(number)
        logger.info("stopping", extra={"signal": number.name})
        stop.set()
        building.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end, number)
    try:
        await serve(await building, path, stop)
    except asyncio.CancelledError:
        if not building.cancelled():
            raise
        logger.info("stopped before serving")
    except SocketError as error:
        logger.error("the provider cannot serve", extra={"error": str(error)})
        return 1
    except Exception:
        logger.exception("the provider has failed")
        return 1
    return 0


async def _built(build: Provider | Build, given: argparse.Namespace) -> Provider:
    made = build if isinstance(build, Provider) else build(given)
    return await made if inspect.isawaitable(made) else made
