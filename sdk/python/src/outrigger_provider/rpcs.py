"""Reads and writes the messages of each method, and puts errors into the contract's words."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, NoReturn

import grpc
from google.protobuf.message import DecodeError, Message

from .call import Call
from .contract import METHODS, STATUS_CODES, Method
from .core import Context, Core
from .errors import Error, Reason, status_of
from .logs import logger


class Rpcs(grpc.GenericRpcHandler):
    """The methods that are served, by their path."""

    def __init__(self, core: Core, services: dict[str, object], unserved: set[str]) -> None:
        """`services` have the methods of a service, by its full name; `unserved` are optional methods."""
        self.core = core
        self.handlers = {
            method.path: self._handler(method, getattr(services[method.service], method.name))
            for method in METHODS.values()
            if method.service in services and method.name not in unserved
        }

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        """The handler of a path; health has one of its own."""
        if details.method.startswith("/grpc.health."):
            return None
        return self.handlers.get(details.method) or grpc.stream_stream_rpc_method_handler(_unserved)

    def _handler(self, method: Method, serve: Callable[..., Any]) -> Any:
        async def unary(data: bytes, context: Context) -> bytes:
            return await self._unary(method, serve, data, context)

        async def upload(parts: AsyncIterator[bytes], context: Context) -> bytes:
            return await self._upload(method, serve, parts, context)

        async def stream(data: bytes, context: Context) -> AsyncIterator[bytes]:
            async for part in self._stream(method, serve, data, context):
                yield part

        if method.is_upload:
            return grpc.stream_unary_rpc_method_handler(upload)
        if method.is_stream:
            return grpc.unary_stream_rpc_method_handler(stream)
        return grpc.unary_unary_rpc_method_handler(unary)

    async def _unary(self, method: Method, serve: Callable[..., Any], data: bytes, context: Context) -> bytes:
        call = None
        try:
            request = self._read(method, data)
            if "context" not in method.request.DESCRIPTOR.fields_by_name:
                self.core.refuse_when_stopping()
                return _written(None, await serve(request))
            call = self.core.admit(method, request.context, request, context)
            return _written(call, await self.core.run(call, serve(call, request)))
        except Exception as error:
            await abort(context, call, error)
        finally:
            self.core.ended(call)

    async def _upload(
        self, method: Method, serve: Callable[..., Any], parts: AsyncIterator[bytes], context: Context
    ) -> bytes:
        call = None
        try:
            messages = self._parts(method, parts)
            first: Any = await anext(messages, method.request())
            if not first.HasField("begin"):
                raise Error(Reason.INVALID_REQUEST, "the upload does not start with begin")
            call = self.core.admit(method, first.begin.context, first, context)
            return _written(call, await self.core.run(call, serve(first.begin, messages)))
        except Exception as error:
            await abort(context, call, error)
        finally:
            self.core.ended(call)

    async def _stream(
        self, method: Method, serve: Callable[..., Any], data: bytes, context: Context
    ) -> AsyncIterator[bytes]:
        call, own = None, asyncio.current_task()
        try:
            request = self._read(method, data)
            call = self.core.admit(method, request.context, request, context)
            if own:
                call.tasks.add(own)
            async for part in serve(call, request):
                yield _written(call, part)
        except Exception as error:
            await abort(context, call, error)
        except BaseException:
            if call:
                call.tasks -= {own}
                self.core.leave(call)
            raise
        finally:
            if call:
                call.tasks -= {own}
            self.core.ended(call)

    async def _parts(self, method: Method, parts: AsyncIterator[bytes]) -> AsyncIterator[Any]:
        async for part in parts:
            yield self._read(method, part)

    def _read(self, method: Method, data: bytes) -> Any:
        most = self.core.provider.max_message_bytes
        if len(data) > most:
            text = f"the request has {len(data)} bytes, and is larger than the {most} that this provider accepts"
            raise Error(Reason.INVALID_REQUEST, f"{text} (HandshakeResponse.max_receive_message_bytes)")
        try:
            return method.request.FromString(data)
        except DecodeError as error:
            raise Error(Reason.INVALID_REQUEST, f"the request is no {method.request.DESCRIPTOR.name}") from error


def _written(call: Call | None, message: Message) -> bytes:
    data = message.SerializeToString()
    if call and len(data) > call.max_send_bytes:
        text = f"the answer has {len(data)} bytes, more than the {call.max_send_bytes} that the controller accepts"
        raise ValueError(f"{text}; lower max_batch_size of the capability")
    return data


async def _unserved(_: Any, context: Context) -> None:
    text = "this provider does not serve the method that was called"
    await abort(context, None, Error(Reason.CAPABILITY_DISABLED, text))


async def abort(context: Context, call: Call | None, error: Exception) -> NoReturn:
    """Ends a call with the status of an exception, with details where it is deliberate."""
    if isinstance(error, Error):
        status = error.call_status()
        logger.info("call failed", extra={"reason": str(error.reason), "error": error.text})
    else:
        status = status_of(error, call.request_id if call else "")
    details = (("grpc-status-details-bin", status.SerializeToString()),) if status.details else ()
    await context.abort(STATUS_CODES[status.code], status.message, details)
    raise AssertionError
