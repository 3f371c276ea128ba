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
    # The server answers these three by itself.
    NODE_SET_UNKNOWN = "NODE_SET_UNKNOWN"
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
    # An option of the load balancer contradicts the vendor's annotation, or another field of the Service; the message
    # names both. Shown, not repeated until the object changes.
    CONFLICTING_OPTIONS = "CONFLICTING_OPTIONS"


class Error(Exception):
    """A deliberate error of a provider: its reason alone decides what the controller does.

    The text ends up in events and logs, so it must contain no secrets; of a longer one 1 KiB is sent. `retry_after` are
    seconds. `effects` are written in spite of the failure. An exception of another type tells the controller nothing
    about the outcome: it repeats the call with back-off.
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
        # A rate limit must name its pause.
        self.retry_after = retry_after or (1 if self.reason is Reason.RATE_LIMITED else 0)

    def status(self) -> Any:
        """The google.rpc.Status, without the effects."""
        # A cloud's answer may be of any length.
        text = self.text.encode(errors="replace")[:MOST_TEXT_BYTES].decode(errors="ignore")
        status = status_pb2.Status(code=CODES[self.reason].value[0], message=text)
        status.details.add().Pack(error_details_pb2.ErrorInfo(domain=DOMAIN, reason=self.reason))
        if self.retry_after > 0:
            delay = Duration()
            delay.FromNanoseconds(round(self.retry_after * 1e9))
            status.details.add().Pack(error_details_pb2.RetryInfo(retry_delay=delay))
        return status


class CallerGoneError(Exception):
    """The caller no longer waits for the call; see Call.check."""


class NotAnsweredError(Exception):
    """The deadline came before the answer."""


def status_of(error: BaseException, request_id: str) -> Any:
    """The google.rpc.Status of any exception of a handler. An exception that is not deliberate is logged, and not sent:
    its text may contain anything."""
    if isinstance(error, Error):
        return error.status()
    if isinstance(error, NotAnsweredError):
        return status_pb2.Status(code=grpc.StatusCode.DEADLINE_EXCEEDED.value[0], message=str(error))
    logger.error("the provider failed", exc_info=error)
    text = f"the provider failed: look for request id {request_id} in its log"
    return status_pb2.Status(code=grpc.StatusCode.INTERNAL.value[0], message=text)
