"""Deliberate errors: a status whose details tell the controller the reason."""

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from .contract import CODES


class Refusal(Exception):  # noqa: N818
    """A deliberate error. The reason decides what the controller does, operators read the text."""

    def __init__(self, reason: str, text: str, retry_after: int | None = None) -> None:
        super().__init__(text)
        self.code = CODES[reason]
        number: int = self.code.value[0]
        # At most 1 KiB, in bytes; a character that is cut in two is left out.
        self.status = status_pb2.Status(code=number, message=text.encode()[:1024].decode(errors="ignore"))
        self._add(error_details_pb2.ErrorInfo(domain="cloudprovider.v1", reason=reason))
        # RATE_LIMITED without a time to wait breaks the contract.
        if retry_after is None and reason == "RATE_LIMITED":
            retry_after = 1
        if retry_after is not None:
            self._add(error_details_pb2.RetryInfo(retry_delay=Duration(seconds=retry_after)))

    def _add(self, detail: Message) -> None:
        self.status.details.add().Pack(detail)
