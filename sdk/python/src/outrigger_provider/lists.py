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

TARGET_BYTES = 1 << 19
# A message that grows slowly is sent after so many seconds: the caller cancels after MethodRules.max_silence.
TARGET_AGE = 10.0
# A repeated field adds to each item its tag and its length.
OVERHEAD = 6


async def pages(call: Call, response: type[M], handler: Callable[..., Any], *arguments: Any) -> AsyncIterator[M]:
    """The items of a handler in messages of limited size, of which the last one says that the list is complete."""
    page: Any = response()
    size, since = 0, time.monotonic()
    async for item in _items(call, handler, *arguments):
        more = item.ByteSize() + OVERHEAD
        is_full = size + more > min(TARGET_BYTES, call.max_send_bytes) or time.monotonic() - since > TARGET_AGE
        if size and is_full:
            yield page
            page, size, since = response(), 0, time.monotonic()
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
    iterator = iter(listed)
    while chunk := await asyncio.to_thread(lambda: list(itertools.islice(iterator, 100))):
        for item in chunk:
            yield item
