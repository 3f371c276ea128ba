"""Calls that wait together share one call of the cloud."""

import asyncio
from collections.abc import Sequence

import pytest
from conftest import until

from outrigger_provider import Batcher


class Cloud:
    """Doubles numbers, many by one call, which ends when a test says so."""

    def __init__(self) -> None:
        self.calls, self.leave = list[list[int]](), asyncio.Event()

    async def double(self, numbers: Sequence[int]) -> list[int | Exception]:
        self.calls.append(list(numbers))
        await self.leave.wait()
        if 13 in numbers:
            raise OSError("503")
        return [LookupError("7") if number == 7 else 2 * number for number in numbers]


async def test_callers_that_wait_together_share_a_call_that_begins_after_each_has_come() -> None:
    cloud = Cloud()
    doubled = Batcher(cloud.double, most=3)
    first = asyncio.create_task(doubled.call(0))
    await until(lambda: cloud.calls == [[0]])
    others = [asyncio.create_task(doubled.call(number)) for number in range(1, 6)]
    await asyncio.sleep(0.01)
    assert cloud.calls == [[0]]
    cloud.leave.set()
    assert await asyncio.gather(first, *others) == [0, 2, 4, 6, 8, 10]
    assert cloud.calls == [[0], [1, 2, 3], [4, 5]]


async def test_an_error_of_the_call_goes_to_each_of_its_callers_and_to_no_other() -> None:
    cloud = Cloud()
    cloud.leave.set()
    doubled = Batcher(cloud.double)
    failed = await asyncio.gather(*map(doubled.call, (1, 13)), return_exceptions=True)
    assert [str(error) for error in failed] == ["503", "503"]
    assert await doubled.call(1) == 2


async def test_an_error_among_the_results_goes_to_its_caller_alone() -> None:
    cloud = Cloud()
    cloud.leave.set()
    doubled = Batcher(cloud.double)
    failed, answered = await asyncio.gather(*map(doubled.call, (7, 8)), return_exceptions=True)
    assert (type(failed), answered) == (LookupError, 16)


async def test_a_caller_that_went_away_while_it_waited_is_left_out() -> None:
    cloud = Cloud()
    doubled = Batcher(cloud.double)
    first = asyncio.create_task(doubled.call(0))
    await until(lambda: cloud.calls == [[0]])
    gone, stays = (asyncio.create_task(doubled.call(number)) for number in (1, 2))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.sleep(0)
    cloud.leave.set()
    assert (await first, await stays) == (0, 4)
    assert cloud.calls == [[0], [2]]


async def test_a_call_that_never_ends_keeps_no_later_one_from_beginning() -> None:
    async def work(items: Sequence[int]) -> list[int | Exception]:
        if 0 in items:
            await asyncio.Event().wait()
        return list(items)

    same = Batcher(work)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(same.call(0), 0.01)
    assert await asyncio.wait_for(same.call(1), 30) == 1


async def test_a_call_with_too_few_results_fails_for_each() -> None:
    async def nothing(items: Sequence[int]) -> list[int | Exception]:
        return []

    with pytest.raises(ValueError, match="0 results for 1 items"):
        await Batcher(nothing).call(1)
