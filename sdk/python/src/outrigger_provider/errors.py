"""Deliberate errors: a reason of the contract, and how it travels."""

from enum import StrEnum
from typing import Any

import grpc
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2, status_pb2

from . import v1
from .contract import CODES, DOMAIN
from .logs import logger

MOST_TEXT_BYTES = 1 << 10
MOST_STATUS_BYTES = 4 << 10


class Reason(StrEnum):
    """Decides what the controller does with an error."""

    # The request breaks the contract. Not repeated until the object changes.
    INVALID_REQUEST = "INVALID_REQUEST"
    # An annotation, or a field that each cloud reads its own way, has a bad value. Shown, not repeated until the
    # object changes.
    INVALID_ANNOTATION = "INVALID_ANNOTATION"
    # The cloud cannot serve this protocol or port. Likewise.
    UNSUPPORTED_PROTOCOL = "UNSUPPORTED_PROTOCOL"
    # The provider's prefix, but no ID of this cloud. Likewise.
    MALFORMED_PROVIDER_ID = "MALFORMED_PROVIDER_ID"
    # The cloud cannot serve something else that this object asks for. Likewise.
    UNSUPPORTED_FEATURE = "UNSUPPORTED_FEATURE"
    # The provider's driver, but no handle of this cloud. Likewise.
    MALFORMED_VOLUME_HANDLE = "MALFORMED_VOLUME_HANDLE"
    # Something else must happen first. Repeated with back-off.
    DEPENDENCY_NOT_READY = "DEPENDENCY_NOT_READY"
    # A foreign resource of the cloud is in the way. Repeated with back-off.
    CONFLICTING_RESOURCE = "CONFLICTING_RESOURCE"
    # The server answers these four by itself.
    NODE_SET_UNKNOWN = "NODE_SET_UNKNOWN"
    NODE_SET_BASE_MISMATCH = "NODE_SET_BASE_MISMATCH"
    NOT_HANDSHAKED = "NOT_HANDSHAKED"
    VERSION_UNSUPPORTED = "VERSION_UNSUPPORTED"
    # Another call works on this object. Repeated after retry_after or 5 s.
    OPERATION_IN_PROGRESS = "OPERATION_IN_PROGRESS"
    # An optimistic lock of the cloud was lost. Repeated with back-off.
    CONFLICT = "CONFLICT"
    # The cloud limits the rate of calls: the class of calls pauses for retry_after.
    RATE_LIMITED = "RATE_LIMITED"
    # A limit of the account or of one object. Concerns this object only.
    QUOTA_EXCEEDED = "QUOTA_EXCEEDED"
    # This process is full: the class of calls pauses for 1 s.
    OVERLOADED = "OVERLOADED"
    # The cloud refuses the credentials: all calls pause.
    CREDENTIALS_INVALID = "CREDENTIALS_INVALID"
    # One action of the cloud is not allowed; the message names it.
    PERMISSION_MISSING = "PERMISSION_MISSING"
    # The cloud's API is down: the class of calls backs off.
    CLOUD_UNAVAILABLE = "CLOUD_UNAVAILABLE"
    # The process is ending; the server answers this by itself.
    SHUTTING_DOWN = "SHUTTING_DOWN"
    # The method is not served, whatever the object.
    CAPABILITY_DISABLED = "CAPABILITY_DISABLED"
    # The cloud refused or failed this one object; the message is shown as it is.
    CLOUD_ERROR = "CLOUD_ERROR"


# Other calls of the class would fail alike, so that the controller pauses them.
STOPS_THE_CLASS = {Reason.RATE_LIMITED, Reason.CREDENTIALS_INVALID, Reason.CLOUD_UNAVAILABLE}


class Error(Exception):
    """A deliberate error of a provider: its reason alone decides what the controller does.

    The text is cut to 1 KiB and ends up in events and logs, so it must contain no secrets. `retry_after` are
    seconds. `effects` are written in spite of the failure, and are left out where they do not fit into 4 KiB. An
    exception of another type tells the controller nothing about the outcome: it repeats the call with back-off.
    """

    def __init__(
        self,
        reason: Reason,
        text: str,
        *,
        retry_after: float | None = None,
        effects: v1.KubernetesEffects | None = None,
    ) -> None:
        super().__init__(text)
        self.reason, self.text, self.effects = Reason(reason), text, effects
        self.retry_after = retry_after if retry_after and retry_after > 0 else None
        if self.retry_after is None and self.reason is Reason.RATE_LIMITED:
            # A pause must be named.
            self.retry_after = 1

    @property
    def code(self) -> grpc.StatusCode:
        """The gRPC code of the reason."""
        return CODES[self.reason]

    def item_status(self) -> Any:
        """The google.rpc.Status of one item, whose effects travel beside it."""
        status = status_pb2.Status(code=self.code.value[0], message=cut(self.text))
        status.details.add().Pack(error_details_pb2.ErrorInfo(domain=DOMAIN, reason=self.reason))
        if self.retry_after:
            nanoseconds = round(self.retry_after * 1e9)
            delay = Duration(seconds=nanoseconds // 10**9, nanos=nanoseconds % 10**9)
            status.details.add().Pack(error_details_pb2.RetryInfo(retry_delay=delay))
        return status

    def call_status(self) -> Any:
        """The google.rpc.Status of a whole call, with the effects among its details."""
        status = self.item_status()
        if self.effects is not None:
            status.details.add().Pack(self.effects)
            if (size := status.ByteSize()) > MOST_STATUS_BYTES:
                text = "the effects beside an error are too large and were left out; send fewer or shorter ones"
                logger.warning(text, extra={"bytes": size, "limit": MOST_STATUS_BYTES})
                del status.details[-1]
        return status


class CallerGoneError(Exception):
    """The caller no longer waits for the call; see Call.check."""

    def __init__(self) -> None:
        super().__init__("the caller no longer waits for this call")


class NotAnsweredError(Exception):
    """The deadline came before the answer."""


def status_of(error: BaseException, request_id: str) -> Any:
    """The google.rpc.Status of any exception of a handler. An exception that is not deliberate is logged, and not sent:
    its text may contain anything."""
    if isinstance(error, Error):
        return error.item_status()
    if isinstance(error, NotAnsweredError):
        return status_pb2.Status(code=grpc.StatusCode.DEADLINE_EXCEEDED.value[0], message=str(error))
    if isinstance(error, CallerGoneError):
        return status_pb2.Status(code=grpc.StatusCode.CANCELLED.value[0], message=str(error))
    logger.error("the provider failed", exc_info=error)
    text = f"the provider failed: look for request id {request_id} in its log"
    return status_pb2.Status(code=grpc.StatusCode.INTERNAL.value[0], message=text)


def cut(text: str, most: int = MOST_TEXT_BYTES) -> str:
    """At most so many bytes of a text, on a character, with an ellipsis where it was cut."""
    encoded = text.encode(errors="replace")
    if len(encoded) > most:
        encoded = encoded[: most - len("…".encode())]
        return encoded.decode(errors="ignore") + "…"
    return encoded.decode()
