"""Starts the provider, python -m example_provider, or asks one: python -m example_provider probe."""

import argparse
import asyncio
import logging
import os
import signal

from .cloud import Cloud, Instance
from .probe import probe
from .server import serve
from .socket_file import SocketError, path_of


def instance(text: str) -> Instance:
    name, _, power = text.partition("=")
    return Instance.named(name, running=power != "off")


async def main() -> None:
    endpoint = os.environ.get("CLOUDPROVIDER_ENDPOINT") or "unix:///run/outrigger/provider.sock"
    parser = argparse.ArgumentParser(prog="python -m example_provider")
    parser.add_argument("command", nargs="?", choices=["serve", "probe"], default="serve")
    parser.add_argument("--endpoint", default=endpoint, help="unix:///absolute/path of the socket")
    power = "can be repeated; NAME=off is stopped"
    parser.add_argument("--instance", action="append", default=[], type=instance, metavar="NAME", help=power)
    parser.add_argument("--synthesize-instances", action="store_true", help="each Node has an instance")
    parser.add_argument("--latency", type=float, default=0.02, help="seconds that a cloud call takes")
    args = parser.parse_args()
    if args.command == "probe":
        answers, sentence = await probe(path_of(args.endpoint))
        print(sentence)
        raise SystemExit(not answers)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    instances = {one.id: one for one in args.instance}
    stop, loop = asyncio.Event(), asyncio.get_running_loop()

    def end(number: signal.Signals) -> None:
        stop.set()
        # A second signal ends the process immediately.
        loop.remove_signal_handler(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end, number)
    try:
        await serve(Cloud(args.latency, args.synthesize_instances, instances), path_of(args.endpoint), stop)
    except (SocketError, OSError) as error:
        raise SystemExit(f"the provider cannot start: {error}") from error


asyncio.run(main())
