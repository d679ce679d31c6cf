"""Loops that give the reactor back, on a clock of the test's own and a processor time that each item costs."""

from __future__ import annotations

from collections.abc import Coroutine, Generator, Iterable
from math import inf

import attrs
import pytest
from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.task import Clock

from pylogbroker.broker.slices import ITEMS_INLINE_MAX, Slices, at_once, inline_if_short, sort_in_steps
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
    assert harness.clock.getDelayedCalls() == []


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


def test_groups_share_slices() -> None:
    harness = Harness()

    def make(group: str, item: int) -> str:
        harness.time += 0.001
        return f"{group}{item}"

    found = Deferred.fromCoroutine(harness.slices.each("abc", lambda group: range(2), make, lambda *pair: pair))
    assert not found.called
    harness.clock.advance(0)
    assert found.result == [("a", ["a0", "a1"]), ("b", ["b0", "b1"]), ("c", ["c0", "c1"])]


def test_the_steps_of_a_generator_are_run_in_slices() -> None:
    harness = Harness()

    def steps() -> Generator[None, None, str]:
        for _ in range(6):
            harness.time += 0.001
            yield
        return "done"

    found = Deferred.fromCoroutine(harness.slices.run(steps()))
    assert not found.called
    harness.clock.advance(0)
    assert found.result == "done"


def test_only_generators_with_many_items_are_left_to_be_run_in_slices() -> None:
    def steps() -> Generator[None, None, str]:
        yield
        return "done"

    long = steps()
    assert inline_if_short(steps(), ITEMS_INLINE_MAX) == "done"
    assert inline_if_short(long, ITEMS_INLINE_MAX + 1) is long


def test_many_items_are_sorted_in_parts() -> None:
    numbers = [number * 7919 % 10_007 for number in range(10_007)]
    steps = list(sort_in_steps(numbers))
    assert len(steps) == 11
    assert list(at_once(sort_in_steps(numbers))) == list(range(10_007))
    assert list(at_once(sort_in_steps(numbers, key=lambda number: -number))) == list(range(10_006, -1, -1))
    assert list(at_once(sort_in_steps([]))) == []


def test_answers_of_handlers_are_settled() -> None:
    slices, seen = Slices(Clock(), inf), []
    waiting: Deferred[None] = Deferred()

    def steps(result: object) -> Generator[None, None, object]:
        yield
        return result

    def run(given: Generator[None, None, object]) -> Deferred[object]:
        seen.append(given)
        return Deferred.fromCoroutine(slices.run(given))

    settled = [Deferred.fromCoroutine(slices.settle(each)) for each in (1, steps(2), waiting, steps(waiting))]
    assert [each.called for each in settled] == [True, True, False, False]
    waiting.callback(None)
    assert [each.called for each in settled] == [True, True, True, True]
    assert [each.result for each in settled[:2]] == [1, 2]
    mine = steps(3)
    assert Deferred.fromCoroutine(slices.settle(mine, run)).result == 3
    assert seen == [mine]


def test_answers_of_handlers_are_completed() -> None:
    slices, timed = Slices(Clock(), inf), list[object]()

    def steps(result: object) -> Generator[None, None, object]:
        yield
        return result

    async def later(result: object) -> object:
        return result

    def note(work: object) -> object:
        timed.append(work)
        return work

    def settled(answer: object) -> object:
        return Deferred.fromCoroutine(slices.settle(answer)).result

    some, coroutine = steps(2), later(3)
    after_steps = later(4)
    answers = [1, some, coroutine, steps(after_steps), succeed(5)]
    assert [settled(slices.complete(each, lambda number: steps(-number), note)) for each in answers] == [
        -number for number in range(1, 6)
    ]
    assert timed == [some, coroutine, answers[3], after_steps]
    assert [slices.complete(6, lambda number: -number), settled(slices.complete(later(7), str))] == [-6, "7"]


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
