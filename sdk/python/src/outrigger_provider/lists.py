"""Sends a list as messages of limited size."""

import asyncio
import inspect
import itertools
import time
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, TypeAlias, TypeVar

from google.protobuf.message import Message

from .call import Call

M = TypeVar("M", bound=Message)
T = TypeVar("T")
# The answer of a handler of a list.
Listed: TypeAlias = Iterable[T] | AsyncIterable[T] | Awaitable[Iterable[T]]

TARGET_BYTES = 1 << 20
# A message that grows slowly is sent after so many seconds: the caller cancels after MethodRules.max_silence.
TARGET_AGE = 10.0
# A repeated field adds to each item its tag and its length.
OVERHEAD = 6


async def pages(call: Call, response: type[M], handler: Callable[..., Any], *arguments: Any) -> AsyncIterator[M]:
    """The items of a handler in messages of about 1 MiB, of which the last one says that the list is complete."""
    kind: Any = response.DESCRIPTOR.fields_by_name["items"].message_type
    page: Any = response()
    size, since = 0, time.monotonic()
    async for item in _items(call, handler, *arguments):
        if not isinstance(item, Message) or item.DESCRIPTOR is not kind:
            raise TypeError(f"{handler.__qualname__} has listed {type(item).__name__}, and not {kind.name}")
        more = item.ByteSize() + OVERHEAD
        if more > call.max_send_bytes:
            raise ValueError(f"an item of the list has {more} bytes, and the controller accepts {call.max_send_bytes}")
        is_full = size + more > min(TARGET_BYTES, call.max_send_bytes) or time.monotonic() - since > TARGET_AGE
        if size and is_full:
            yield page
            page, size = response(), 0
        if not size:
            since = time.monotonic()
        page.items.append(item)
        size += more
    page.complete = True
    yield page


async def _items(call: Call, handler: Callable[..., Any], *arguments: Any) -> AsyncIterator[Any]:
    """The items of an async generator, or of what a function returns; the iterator of a `def` runs in a thread too."""
    if inspect.isasyncgenfunction(handler):
        listed: Any = handler(call, *arguments)
    else:
        listed = await call.invoke(handler, *arguments)
    if isinstance(listed, AsyncIterable):
        async for item in listed:
            yield item
        return
    if not isinstance(listed, Iterable):
        raise TypeError(f"{handler.__qualname__} has answered {type(listed).__name__}, and not a list")
    iterator = iter(listed)
    loop = asyncio.get_running_loop()
    while chunk := await loop.run_in_executor(call.executor, lambda: list(itertools.islice(iterator, 100))):
        for item in chunk:
            yield item
