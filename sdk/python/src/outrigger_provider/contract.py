"""The methods and reasons of the contract, read from the options of its messages."""

from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from . import v1
from .v1 import instances_pb2, load_balancers_pb2, node_sets_pb2, options_pb2, provider_pb2, routes_pb2, volumes_pb2

# The one minor revision of the contract that this package speaks.
MINOR = 1
DOMAIN = "cloudprovider.v1"


@dataclass(frozen=True)
class Method:
    """A method of the contract with its rules."""

    path: str
    service: str
    name: str
    request: type[Message]
    response: type[Message]
    is_upload: bool
    is_stream: bool
    changes_cloud: bool


def _methods() -> dict[str, Method]:
    files: list[Any] = [provider_pb2, instances_pb2, load_balancers_pb2, node_sets_pb2, routes_pb2, volumes_pb2]
    services = [service for file in files for service in file.DESCRIPTOR.services_by_name.values()]
    methods = [
        Method(
            path=f"/{service.full_name}/{method.name}",
            service=service.name,
            name=method.name,
            request=GetMessageClass(method.input_type),
            response=GetMessageClass(method.output_type),
            is_upload=method.client_streaming,
            is_stream=method.server_streaming,
            changes_cloud=method.GetOptions().Extensions[options_pb2.rules].changes_cloud,
        )
        for service in services
        for method in service.methods
    ]
    return {method.name: method for method in methods}


# By name, which is different in each service.
METHODS = _methods()

STATUS_CODES = {code.value[0]: code for code in grpc.StatusCode}
CODES = {
    value.name.removeprefix("ERROR_REASON_"): STATUS_CODES[value.GetOptions().Extensions[options_pb2.grpc_code]]
    for value in v1.ErrorReason.DESCRIPTOR.values
    if value.number
}
