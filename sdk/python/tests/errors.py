"""Errors as the controller reads them."""

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2


@dataclass
class Failure:
    code: str
    reason: str
    text: str
    retry_after: float | None
    status: Any


def read(status: Any) -> Failure:
    info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
    reasons = [info.reason for detail in status.details if detail.Unpack(info)]
    waits = [retry.retry_delay.ToNanoseconds() / 1e9 for detail in status.details if detail.Unpack(retry)]
    assert len(reasons) <= 1
    assert not reasons or info.domain == "cloudprovider.v1"
    code = next(code.name for code in grpc.StatusCode if code.value[0] == status.code)
    return Failure(code, "".join(reasons), status.message, waits[0] if waits else None, status)


async def failure(call: Awaitable[Any]) -> Failure:
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call
    error = raised.value
    status = status_pb2.Status(code=error.code().value[0], message=error.details())
    trailers: Any = dict(error.trailing_metadata() or ())
    if details := trailers.get("grpc-status-details-bin"):
        status.ParseFromString(details)
        assert (status.code, status.message) == (error.code().value[0], error.details())
    return read(status)
