"""Serves the methods of the contract by gRPC, and puts errors into the contract's words."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, NoReturn

import grpc

from .call import Call
from .contract import METHODS, STATUS_CODES, Method
from .core import Context, Core
from .errors import Error, Reason, status_of
from .logs import logger


def handlers(core: Core, service: str, served: object, unserved: set[str]) -> grpc.GenericRpcHandler:
    """The methods of a service; `unserved` are those that are optional and not offered."""
    methods = {
        method.name: _handler(core, method, getattr(served, method.name))
        for method in METHODS.values()
        if method.service == service and method.name not in unserved
    }
    made: grpc.GenericRpcHandler = grpc.method_handlers_generic_handler(f"cloudprovider.v1.{service}", methods)
    return made


def _handler(core: Core, method: Method, serve: Callable[..., Any]) -> Any:
    codec = (method.request.FromString, method.response.SerializeToString)

    async def answer(request: Any, context: Context, work: Callable[[Call], Coroutine[Any, Any, Any]]) -> Any:
        try:
            call = core.admit(method, request, context)
            return await core.run(call, work(call))
        except Exception as error:
            await _abort(context, request, error)

    async def unary(request: Any, context: Context) -> Any:
        return await answer(request, context, lambda call: serve(call, request))

    async def upload(parts: AsyncIterator[Any], context: Context) -> Any:
        rest = aiter(parts)
        if (first := await anext(rest, None)) is None:
            await _abort(context, None, Error(Reason.INVALID_REQUEST, "the upload has no message"))

        async def work(call: Call) -> Any:
            return await serve(call, [first, *[part async for part in rest]])

        # The context is in the first message. From then on the call is at work: an end of the process waits for it.
        return await answer(first, context, work)

    async def stream(request: Any, context: Context) -> AsyncIterator[Any]:
        try:
            call = core.admit(method, request, context)
            if task := asyncio.current_task():
                core.keep(call, task)
            async for part in serve(call, request):
                yield part
        except Exception as error:
            await _abort(context, request, error)

    if method.is_upload:
        return grpc.stream_unary_rpc_method_handler(upload, *codec)
    if method.is_stream:
        return grpc.unary_stream_rpc_method_handler(stream, *codec)
    return grpc.unary_unary_rpc_method_handler(unary, *codec)


async def _abort(context: Context, request: Any, error: Exception) -> NoReturn:
    """Ends a call with the status of an exception, with details where it is deliberate."""
    sent = getattr(request, "context", None)
    status = status_of(error, sent.request_id if sent else "")
    if isinstance(error, Error):
        logger.info("call failed", extra={"reason": str(error.reason), "error": error.text})
        if error.effects is not None:
            status.details.add().Pack(error.effects)
    details = (("grpc-status-details-bin", status.SerializeToString()),) if status.details else ()
    await context.abort(STATUS_CODES[status.code], status.message, details)
    raise AssertionError
