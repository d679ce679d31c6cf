"""Timeouts of waits that end earlier as a rule."""

from __future__ import annotations

import random

import attrs
import pytest
from twisted.internet.task import Clock

from pylogbroker.broker.runtime.timeouts import LOOK_SECONDS, Timeouts


@attrs.define(eq=False)
class Wait:
    clock: Clock
    ended: list[float] = attrs.field(factory=list)

    def time_out(self) -> None:
        self.ended.append(self.clock.seconds())


def test_each_wait_that_stays_ends_in_its_time_and_no_other_does() -> None:
    random_source, clock = random.Random(1), Clock()
    timeouts = Timeouts(clock)
    present: dict[Wait, tuple[float, float]] = {}
    gone: list[Wait] = []
    for _ in range(2000):
        clock.advance(random_source.choice([0, 0.01, 0.05]))
        present = {wait: end for wait, end in present.items() if not wait.ended}
        if random_source.random() < 0.6:
            wait, seconds = Wait(clock), random_source.choice([0.0, 0.25, 0.5, 2.5, 30.0])
            timeouts.add(seconds, wait)
            present[wait] = seconds, clock.seconds() + seconds
        elif present:
            wait = random_source.choice(list(present))
            seconds, end = present.pop(wait)
            assert timeouts.remove(seconds, wait) == end
            gone.append(wait)
    ends = {wait: end for wait, (_, end) in present.items()}
    for _ in range(4000):
        clock.advance(0.01)
    assert all(end <= wait.ended[0] <= end + 0.0101 and len(wait.ended) == 1 for wait, end in ends.items())
    assert not any(wait.ended for wait in gone)
    assert not clock.getDelayedCalls()


def test_a_long_wait_that_ends_leaves_nothing_behind_for_long() -> None:
    clock = Clock()
    timeouts, wait = Timeouts(clock), Wait(clock)
    timeouts.add(2_000_000.0, wait)
    timeouts.remove(2_000_000.0, wait)
    clock.advance(LOOK_SECONDS)
    assert not clock.getDelayedCalls()


def test_a_wait_that_ends_others_or_begins_again() -> None:
    clock = Clock()
    timeouts, other = Timeouts(clock), Wait(clock)

    class Ending(Wait):
        def time_out(self) -> None:
            super().time_out()
            timeouts.remove(1.0, other)
            if len(self.ended) < 3:
                timeouts.add(1.0, self)

    ending = Ending(clock)
    timeouts.add(1.0, ending)
    timeouts.add(1.0, other)
    clock.pump([0.5] * 10)
    assert (ending.ended, other.ended) == ([1.0, 2.0, 3.0], [])


def test_a_wait_that_fails_to_end_delays_no_other() -> None:
    clock = Clock()
    timeouts, waits = Timeouts(clock), [Wait(clock), Wait(clock)]

    class Failing(Wait):
        def time_out(self) -> None:
            raise ValueError("a defect")

    for wait in (waits[0], Failing(clock), waits[1]):
        timeouts.add(1.0, wait)
    with pytest.raises(ValueError, match="a defect"):
        clock.advance(1.0)
    clock.advance(0.0)
    assert [wait.ended for wait in waits] == [[1.0], [1.0]]


def test_nothing_ends_after_a_stop() -> None:
    clock = Clock()
    timeouts, waits = Timeouts(clock), [Wait(clock), Wait(clock)]
    for wait, seconds in zip(waits, (0.5, 5.0), strict=True):
        timeouts.add(seconds, wait)
    timeouts.stop()
    assert not clock.getDelayedCalls()
    clock.advance(10)
    assert timeouts.remove(5.0, waits[1]) == 0
    assert not any(wait.ended for wait in waits)
