"""Errors as the controller reads them."""

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2


@dataclass
class Error:
    code: grpc.StatusCode
    reason: str
    text: str
    retry_after: int | None


def details(status: status_pb2.Status) -> tuple[str, int | None]:
    info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
    reasons = [info.reason for detail in status.details if detail.Unpack(info)]
    waits = [retry.retry_delay.seconds for detail in status.details if detail.Unpack(retry)]
    assert info.domain == "cloudprovider.v1"
    assert len(reasons) == 1
    return reasons[0], waits[0] if waits else None


async def reason_of(call: Awaitable[Any]) -> Error:
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call
    error = raised.value
    status = status_pb2.Status()
    trailers: Any = error.trailing_metadata()
    status.ParseFromString(trailers["grpc-status-details-bin"])
    assert (status.code, status.message) == (error.code().value[0], error.details())
    reason, retry_after = details(status)
    return Error(error.code(), reason, status.message, retry_after)
