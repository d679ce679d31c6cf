"""Calls at the end of a turn."""

from __future__ import annotations

from twisted.internet.task import Clock

from pylogbroker.broker.turns import Turns


def test_within_a_turn_calls_wait_for_its_end_and_are_made_once() -> None:
    clock, made = Clock(), []
    turns = Turns(clock)
    turns.begin()
    turns.at_end(lambda: made.append("first"))
    turns.at_end(lambda: made.append("second"))
    clock.advance(0)
    assert made == []
    turns.end()
    turns.end()
    assert made == ["first", "second"]


def test_outside_of_a_turn_calls_are_made_when_the_reactor_is_back() -> None:
    clock, made = Clock(), []
    turns = Turns(clock)
    turns.at_end(lambda: made.append(1))
    turns.at_end(lambda: made.append(2))
    assert made == []
    clock.advance(0)
    assert made == [1, 2]
    assert clock.getDelayedCalls() == []


def test_what_the_calls_put_off_is_done_in_the_same_end_also_through_turns_within() -> None:
    turns, made = Turns(Clock()), []

    def first() -> None:
        made.append("first")
        turns.begin()
        turns.at_end(lambda: made.append("within"))
        turns.end()
        made.append("first is done")

    turns.begin()
    turns.at_end(first)
    turns.end()
    assert made == ["first", "first is done", "within"]
