"""Starts the provider, python -m example_provider, or asks one: python -m example_provider probe."""

import argparse
from importlib.metadata import version
from pathlib import Path

from outrigger_provider import Provider, main

from .cloud import Cloud, Instance
from .instances import Machines
from .load_balancers import PREFIX, Balancers


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--instance", action="append", default=[], type=Instance.named, help="NAME, or NAME=off")
    parser.add_argument("--synthesize-instances", action="store_true", help="each Node has an instance")
    parser.add_argument("--latency", type=float, default=0.02, help="seconds that a cloud call takes")
    parser.add_argument("--switch", type=Path, help="file that switches the cloud: off, hangs, limited or locked")
    parser.add_argument("--room", type=int, default=1000, help="load balancers that the account has room for")


def build(given: argparse.Namespace) -> Provider:
    instances = {instance.id: instance for instance in given.instance}
    return provider(Cloud(given.latency, given.synthesize_instances, given.switch, given.room, instances))


def provider(cloud: Cloud) -> Provider:
    # An empty list of prefixes would mean all, and each change of an annotation would be a call.
    reads, number = [PREFIX], version("outrigger-example-provider")
    services = Machines(cloud), Balancers(cloud)
    return Provider("example", number, *services, service_annotation_prefixes=reads, status=cloud.health.status)


def run() -> None:
    main(build, arguments=arguments)


if __name__ == "__main__":
    run()
