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
DEFAULT_MESSAGE_BYTES = 4 << 20


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
    rules: v1.MethodRules

    def deadline(self, request: Any) -> float:
        """The seconds that a caller waits who names no time."""
        seconds = self.rules.deadline.ToTimedelta().total_seconds()
        return seconds * len(request.items) if self.rules.deadline_per_item else seconds


def _methods() -> dict[str, Method]:
    files: list[Any] = [provider_pb2, instances_pb2, load_balancers_pb2, node_sets_pb2, routes_pb2, volumes_pb2]
    services = [service for file in files for service in file.DESCRIPTOR.services_by_name.values()]
    methods = [
        Method(
            path=f"/{service.full_name}/{method.name}",
            service=service.full_name,
            name=method.name,
            request=GetMessageClass(method.input_type),
            response=GetMessageClass(method.output_type),
            is_upload=method.client_streaming,
            is_stream=method.server_streaming,
            rules=method.GetOptions().Extensions[options_pb2.rules],
        )
        for service in services
        for method in service.methods
    ]
    return {method.name: method for method in methods}


def _field_type(message: type[Message], field: str) -> Any:
    return message.DESCRIPTOR.fields_by_name[field].message_type


# By name, which is different in each service.
METHODS = _methods()

# The field that is the key of an item of a batch, by the item's message: "name" of a Node.
ITEM_KEYS = {
    GetMessageClass(_field_type(method.request, "items")): method.rules.item_key
    for method in METHODS.values()
    if method.rules.item_key
}

STATUS_CODES = {code.value[0]: code for code in grpc.StatusCode}
CODES = {
    value.name.removeprefix("ERROR_REASON_"): STATUS_CODES[value.GetOptions().Extensions[options_pb2.grpc_code]]
    for value in v1.ErrorReason.DESCRIPTOR.values
    if value.number
}


def key_of(item: Message) -> str:
    """The key of an item of a batch."""
    key: str = getattr(item, ITEM_KEYS[type(item)])
    return key
