"""Starts the provider, or asks one that runs: `provider-my-cloud probe`."""

from outrigger_provider import Provider, main

from .machines import Machines

provider = Provider(
    "my-cloud",
    "0.1.0",
    instances=Machines(),
    # Annotations of other prefixes are not sent, and lead to no call.
    service_annotation_prefixes=["my-cloud.example/"],
)


def run() -> None:
    main(provider)
