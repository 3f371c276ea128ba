"""Errors as the controller reads them."""

from collections.abc import Awaitable
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2


def reason_in(status: Any) -> str:
    info = error_details_pb2.ErrorInfo()
    (reason,) = [info.reason for detail in status.details if detail.Unpack(info)]
    return str(reason)


async def reason_of(call: Awaitable[Any]) -> str:
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call
    trailers: Any = dict(raised.value.trailing_metadata() or ())
    return reason_in(status_pb2.Status.FromString(trailers["grpc-status-details-bin"]))
