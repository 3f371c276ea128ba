"""Shares one call of the cloud among calls that wait together."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from typing import Generic, TypeVar

I = TypeVar("I")  # noqa: E741
R = TypeVar("R")


class Batcher(Generic[I, R]):
    """For a cloud that changes or answers many objects by one call.

    Callers that wait together share one call of the cloud, which begins after each of them has come, so that a shared
    list is never older than the question. One call runs at a time, and callers that come meanwhile share the next; a
    call that all its callers have left is cancelled.

        class MyRoutes(Routes):
            def __init__(self, table: Table) -> None:
                # Table.add(routes) answers the ID of each.
                self.added = Batcher(table.add, most=50)

            async def create_route(self, call: Call, route: v1.Route) -> v1.Route:
                return v1.Route(name=await self.added.call(route), destination_cidr=route.destination_cidr)
    """

    def __init__(self, work: Callable[[Sequence[I]], Awaitable[Sequence[R | Exception]]], most: int = 100) -> None:
        """`work` gets the items of at most `most` callers, and answers a result for each in their order. It fails for
        each of them by an exception that it raises, and for one of them by an exception in the place of its result."""
        self._work, self._most = work, most
        self._waiting: deque[tuple[I, asyncio.Future[R]]] = deque()
        self._running: asyncio.Task[None] | None = None

    async def call(self, item: I) -> R:
        """The result of an item."""
        result: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, result))
        if self._running is None or self._running.done():
            # The lines that are logged in it are no single caller's.
            self._running = asyncio.create_task(self._run(), context=Context())
        return await result

    async def _outcomes(self, items: list[I], results: list[asyncio.Future[R]]) -> Sequence[R | Exception]:
        work = asyncio.ensure_future(self._work(items))
        gone = asyncio.ensure_future(asyncio.wait(results))
        await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        gone.cancel()
        work.cancel()  # does nothing to one that has ended
        return await work

    async def _run(self) -> None:
        while self._waiting:
            taken = [self._waiting.popleft() for _ in range(min(self._most, len(self._waiting)))]
            # A caller that went away while it waited is left out.
            taken = [(item, result) for item, result in taken if not result.done()]
            items = [item for item, _ in taken]
            outcomes: Sequence[R | Exception]
            try:
                outcomes = await self._outcomes(items, [result for _, result in taken]) if items else []
                if len(outcomes) != len(items):
                    raise ValueError(f"{len(outcomes)} results for {len(items)} items")
            except Exception as error:
                outcomes = [error] * len(items)
            except asyncio.CancelledError:
                outcomes = [RuntimeError("the shared call was cancelled")] * len(items)
            for (_, result), outcome in zip(taken, outcomes, strict=True):
                if result.done():
                    continue
                if isinstance(outcome, Exception):
                    result.set_exception(outcome)
                else:
                    result.set_result(outcome)
