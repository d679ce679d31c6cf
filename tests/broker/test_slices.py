"""Loops that give the reactor back, on a clock of the test's own and a processor time that each item costs."""

from __future__ import annotations

import inspect
from collections.abc import Coroutine, Iterable

import attrs
import pytest
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock

from pylogbroker.broker.runtime.slices import Slices
from pylogbroker.long_loops import give_way


@attrs.define
class Harness:
    """Slices of 4 ms, and loops in which each item takes 1 ms."""

    clock: Clock = attrs.field(factory=Clock)
    time: float = 0.0
    done: list[str] = attrs.field(factory=list)
    slices: Slices = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.slices = Slices(self.clock, 0.004, lambda: self.time)

    def loop(self, items: Iterable[str]) -> Deferred[None]:
        async def run() -> None:
            async for item in self.slices.over(items):
                self.done.append(item)
                self.time += 0.001

        return Deferred.fromCoroutine(run())

    def iterate(self) -> str:
        """Run one iteration of a reactor (`Clock.advance` would run several); the items that it handled."""
        before = len(self.done)
        scheduled, self.clock.calls = self.clock.calls, []
        for call in scheduled:
            call.func()
        return "".join(self.done[before:])


def test_a_loop_pauses_when_its_slice_is_over() -> None:
    harness = Harness()
    finished = harness.loop("abcdefghij")
    assert "".join(harness.done) == "abcd"
    assert [harness.iterate(), harness.iterate(), harness.iterate()] == ["efgh", "ij", ""]
    assert finished.called
    assert harness.clock.getDelayedCalls() == []


def test_a_short_loop_does_not_wait() -> None:
    harness = Harness()
    assert harness.loop("abc").called
    assert harness.iterate() == ""
    assert harness.clock.getDelayedCalls() == []


def test_many_short_loops_pause_as_one_long_loop() -> None:
    harness = Harness()

    async def run() -> None:
        for letter in "abcdefghij":
            async for item in harness.slices.over((letter,)):
                harness.done.append(item)
                harness.time += 0.001

    finished = Deferred.fromCoroutine(run())
    assert "".join(harness.done) == "abcd"
    assert [harness.iterate(), harness.iterate(), harness.iterate()] == ["efgh", "ij", ""]
    assert finished.called


def test_loops_without_items_pause_when_the_time_between_them_is_a_slice() -> None:
    harness = Harness()

    async def run() -> None:
        for letter in "abcdefgh":
            async for _ in harness.slices.over(()):
                pass
            harness.done.append(letter)
            harness.time += 0.001

    finished = Deferred.fromCoroutine(run())
    assert "".join(harness.done) == "abcd"
    assert [harness.iterate(), harness.iterate()] == ["efgh", ""]
    assert finished.called


def test_a_loop_around_short_coroutines_pauses() -> None:
    harness = Harness()

    async def short(letter: str) -> None:
        harness.done.append(letter)
        harness.time += 0.001

    async def run() -> None:
        for letter in "abcdefgh":
            await harness.slices.run(short(letter))

    finished = Deferred.fromCoroutine(run())
    assert "".join(harness.done) == "abcd"
    assert [harness.iterate(), harness.iterate()] == ["efgh", ""]
    assert finished.called


def test_a_cancelled_coroutine_that_has_not_begun_is_closed() -> None:
    harness = Harness()

    async def never() -> None:
        harness.done.append("never")

    async def run() -> None:
        async for _ in harness.slices.over("abc"):
            harness.time += 0.002
        harness.time += 0.004
        work = never()
        try:
            await harness.slices.run(work)
        finally:
            harness.done.append(str(inspect.getcoroutinestate(work)))

    finished = Deferred.fromCoroutine(run())
    errors: list[type[BaseException]] = []
    finished.addErrback(lambda failure: errors.append(failure.type))
    harness.iterate()
    assert harness.done == []
    finished.cancel()
    assert (harness.done, errors) == ([inspect.CORO_CLOSED], [CancelledError])


def test_an_iteration_has_one_slice_for_loops_that_begin_after_each_other() -> None:
    harness = Harness()
    assert all(harness.loop(letters).called for letters in ("ab", "c"))
    waiting = harness.loop("defg")
    assert "".join(harness.done) == "abcd"
    assert harness.iterate() == "efg"
    assert waiting.called
    last = harness.loop("hi")
    assert "".join(harness.done) == "abcdefgh", "the iteration in which others were resumed has no second slice"
    assert not last.called
    assert [harness.iterate(), harness.iterate()] == ["i", ""]


def test_a_new_slice_is_not_set_up_within_a_millisecond() -> None:
    harness = Harness()
    for _ in range(100):
        harness.time += 0.000_009
        assert harness.loop("").called
        assert len(harness.clock.getDelayedCalls()) <= 1
    scheduled = harness.clock.getDelayedCalls()
    harness.iterate()
    harness.loop("")
    assert len(scheduled) == 1
    assert harness.clock.getDelayedCalls() == []


def test_a_long_list_is_sorted_in_slices() -> None:
    harness = Harness()

    def key(number: int) -> int:
        harness.time += 0.000_001
        return -number

    numbers = [number * 7919 % 10_007 for number in range(10_007)]
    finished = Deferred.fromCoroutine(harness.slices.in_order(numbers, key))
    iterations = 0
    while not finished.called:
        began = harness.time
        harness.iterate()
        iterations += 1
        assert harness.time - began < 0.01  # the last slice of sorting, and the first of merging, at most
    assert iterations >= 4
    assert finished.result == list(range(10_006, -1, -1))


def test_all_loops_share_one_slice_per_iteration() -> None:
    harness = Harness()
    loops = [harness.loop("abcdef"), harness.loop("ABC"), harness.loop("1234")]
    assert "".join(harness.done) == "abcdA1", "who comes while others wait does one item"
    assert [harness.iterate(), harness.iterate(), harness.iterate()] == ["efBC", "234", ""]
    assert all(loop.called for loop in loops)


def test_a_cancelled_loop_ends_and_the_others_go_on() -> None:
    harness = Harness()
    first, second = harness.loop("abcdef"), harness.loop("AB")
    ended: list[type[BaseException]] = []
    first.addErrback(lambda failure: ended.append(failure.type))
    first.cancel()
    assert ended == [CancelledError]
    assert harness.iterate() == "B"
    assert second.called


def test_an_error_in_the_body_ends_its_loop_alone() -> None:
    harness = Harness()

    async def fail() -> None:
        async for _ in harness.slices.over(range(10)):
            harness.time += 0.002
            if harness.time > 0.005:
                raise KeyError("the body's")

    ended: list[type[BaseException]] = []
    failing, other = Deferred.fromCoroutine(fail()), harness.loop("AB")
    failing.addErrback(lambda failure: ended.append(failure.type))
    harness.iterate()
    assert ended == [KeyError]
    assert other.called


def test_a_stop_finishes_all_loops_at_once() -> None:
    harness = Harness()
    loops = [harness.loop("abcdefghijkl"), harness.loop("ABCDEFGH")]
    harness.slices.stop()
    assert all(loop.called for loop in loops)
    assert sorted(harness.done) == sorted("abcdefghijklABCDEFGH")
    assert harness.loop("x" * 100).called
    harness.clock.advance(0)
    assert harness.clock.getDelayedCalls() == []


async def numbered(harness: Harness, items: int, milliseconds: float = 1) -> str:
    for number in range(items):
        harness.done.append(str(number))
        harness.time += milliseconds / 1000
        await give_way()
    return "done"


def test_a_coroutine_pauses_when_its_slice_is_over() -> None:
    harness = Harness()
    found = harness.slices.start(numbered(harness, 10))
    assert "".join(harness.done) == "0123"
    assert [harness.iterate(), harness.iterate(), harness.iterate()] == ["4567", "89", ""]
    assert found.result == "done"
    assert harness.clock.getDelayedCalls() == []


def test_short_work_does_not_wait_behind_long_work() -> None:
    harness = Harness()
    harness.slices.start(numbered(harness, 6))
    assert harness.slices.attempt(numbered(harness, 4, milliseconds=0.1)) == "done"
    assert isinstance(harness.slices.attempt(numbered(harness, 6, milliseconds=0.1)), Deferred)


def test_a_coroutine_has_another_slice_after_it_has_waited() -> None:
    harness, event = Harness(), Deferred[str]()

    async def work() -> str:
        await numbered(harness, 3)
        found = await event
        await numbered(harness, 3)
        return found

    found = harness.slices.start(work())
    harness.iterate()
    harness.time += 1
    event.callback("event")
    assert found.result == "event"


def test_an_attempt_reports_pauses_but_no_other_waiting() -> None:
    harness, event, seen = Harness(), Deferred[None](), list[str]()

    async def work(items: int, *, fails: bool = False) -> str:
        await numbered(harness, items)
        if fails:
            raise KeyError
        await event
        return await numbered(harness, 9)

    def attempt(work: Coroutine[object, object, str]) -> str | Deferred[str]:
        return harness.slices.attempt(work, lambda: seen.append("pause"), lambda: seen.append("resume"))

    assert isinstance(attempt(work(1)), Deferred)
    assert seen == [], "it waited for the event before its slice was over"
    waiting = attempt(work(6))
    assert seen == ["pause"]
    harness.iterate()
    assert seen == ["pause", "resume"], "it waits for the event"
    event.callback(None)
    harness.clock.advance(0)
    assert isinstance(waiting, Deferred)
    assert waiting.result == "done"
    assert seen == ["pause", "resume"]
    failing, cancelled = attempt(work(6, fails=True)), attempt(work(6))
    assert isinstance(failing, Deferred)
    assert isinstance(cancelled, Deferred)
    errors: list[type[BaseException]] = []
    for each in failing, cancelled:
        each.addErrback(lambda failure: errors.append(failure.type))
    cancelled.cancel()
    assert (seen[2:], errors) == (["pause", "pause", "resume"], [CancelledError])
    harness.iterate()
    assert (seen[5:], errors) == (["resume"], [CancelledError, KeyError])


def test_an_attempt_raises_what_happens_before_it_waits() -> None:
    async def fail() -> None:
        await give_way()
        raise KeyError

    with pytest.raises(KeyError):
        Harness().slices.attempt(fail())
