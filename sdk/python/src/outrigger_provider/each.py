"""Works on the items of a batch one by one, with a deadline and with errors that concern all of them."""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from google.protobuf.message import Message

from .call import Call
from .contract import key_of
from .errors import STOPS_THE_CLASS, Error, NotAnsweredError

I = TypeVar("I", bound=Message)  # noqa: E741

# Seconds before its deadline that a batch of lookups is answered, at most: enough to send the answer.
ANSWER_MARGIN = 1.0


async def each(
    call: Call,
    items: Sequence[I],
    work: Callable[..., Any],
    *arguments: Any,
    concurrency: int = 8,
    done: Callable[[I, object], None] | None = None,
) -> dict[str, Any]:
    """The outcome of each item by its key; `work` gets call and item, and an exception of it concerns its item only.

    At most `concurrency` items are worked on at a time. Once the cloud limits the rate, refuses the credentials or is
    away, items that were not begun get that error too; once the caller is gone, no other item is begun. Shortly before
    the deadline of a lookup the outcomes that are there are returned, and an error for each other item. The order
    changes from call to call, so that no item is always behind those that hang.
    """
    outcomes: dict[str, Any] = {}
    pending = deque(random.sample(items, len(items)))
    stop: Error | None = None

    def note(item: I, outcome: object) -> None:
        outcomes[key_of(item)] = outcome
        if done:
            done(item, outcome)

    async def worker() -> None:
        nonlocal stop
        while pending and stop is None and not call.is_gone:
            item = pending.popleft()
            try:
                note(item, await call.invoke(work, item, *arguments))
            except Exception as error:
                note(item, error)
                if isinstance(error, Error) and error.reason in STOPS_THE_CLASS:
                    stop = error

    workers = [asyncio.create_task(worker()) for _ in range(min(max(concurrency, 1), len(items)))]
    remaining = None if call.changes_cloud else call.remaining()
    try:
        if workers:
            timeout = None if remaining is None else remaining - min(ANSWER_MARGIN, remaining / 10)
            await asyncio.wait(workers, timeout=timeout)
    finally:
        for task in workers:
            task.cancel()
    if stop:
        # Effects stay with the first.
        again = Error(stop.reason, stop.text, retry_after=stop.retry_after)
        while pending:
            note(pending.popleft(), again)
    for item in items:
        if key_of(item) not in outcomes:
            text = "not asked about, other objects took the time" if item in pending else "the cloud has not answered"
            note(item, NotAnsweredError(text))
    return outcomes
