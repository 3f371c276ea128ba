"""Limits changes: one at a time for each key, and in all as many as the provider declares."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from .call import Call
from .errors import Error, Reason

# Seconds that a call waits for another one of its key.
PATIENCE = 10.0


class Keys:
    """Locks that outlive a call whose caller is gone, until its work has ended."""

    def __init__(self, max_in_flight: int) -> None:
        """0: any number. The controller keeps to that limit too, but a handler outlives a call whose caller is gone."""
        self.places = asyncio.Semaphore(max_in_flight or 1 << 30)
        # A lock is there as long as a call has or wants it.
        self.locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def held(self, call: Call, key: str) -> AsyncIterator[None]:
        """Holds a key, in the order of arrival, and a place."""
        lock = self.locks.setdefault(key, asyncio.Lock())
        try:
            async with asyncio.timeout(PATIENCE):
                await lock.acquire()
        except TimeoutError:
            raise Error(Reason.OPERATION_IN_PROGRESS, f"another call about {key} is running") from None
        try:
            async with self.places:
                call.check()
                yield
        finally:
            lock.release()
