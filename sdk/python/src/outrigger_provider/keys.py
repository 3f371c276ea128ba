"""Limits changes: one at a time for each key, and in all as many as the provider declares."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from .call import Call
from .errors import Error, Reason


class Keys:
    """Locks that outlive a call whose caller is gone, until its work has ended."""

    def __init__(self, patience: float, retry_after: float | None, max_in_flight: int) -> None:
        """A call waits `patience` seconds for another one of its key, and is then refused; `max_in_flight` 0: any
        number."""
        self.patience, self.retry_after = patience, retry_after
        self.slots = asyncio.Semaphore(max_in_flight) if max_in_flight else None
        self.locks: dict[str, tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def key(self, call: Call, key: str) -> AsyncIterator[None]:
        """Holds a key, in the order of arrival."""
        lock, users = self.locks.get(key, (asyncio.Lock(), 0))
        self.locks[key] = (lock, users + 1)
        try:
            if lock.locked():
                await self._wait(lock, key)
            else:
                await lock.acquire()
            try:
                call.check()
                yield
            finally:
                lock.release()
        finally:
            lock, users = self.locks.pop(key)
            if users > 1:
                self.locks[key] = (lock, users - 1)

    async def _wait(self, lock: asyncio.Lock, key: str) -> None:
        try:
            async with asyncio.timeout(self.patience):
                await lock.acquire()
        except TimeoutError:
            text = f"another call about {key} is running"
            raise Error(Reason.OPERATION_IN_PROGRESS, text, retry_after=self.retry_after) from None

    @asynccontextmanager
    async def slot(self, call: Call) -> AsyncIterator[None]:
        """Holds one of the places of max_in_flight. The controller keeps to that limit too, but a handler outlives a
        call whose caller is gone."""
        if self.slots is None:
            yield
            return
        async with self.slots:
            call.check()
            yield
