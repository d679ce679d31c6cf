"""Actions that run after the requests of one connection."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.logger import capturedLogs

from pylogbroker.broker.requests.deferred_actions import DeferredActions


def test_within_a_batch_calls_wait_for_its_end_and_are_made_once() -> None:
    clock, made = Clock(), []
    deferred_actions = DeferredActions(clock)
    deferred_actions.hold()
    deferred_actions.defer(lambda: made.append("first"))
    deferred_actions.defer(lambda: made.append("second"))
    clock.advance(0)
    assert made == []
    deferred_actions.run()
    deferred_actions.run()
    assert made == ["first", "second"]


def test_outside_of_an_event_calls_are_made_when_the_reactor_is_back() -> None:
    clock, made = Clock(), []
    deferred_actions = DeferredActions(clock)
    deferred_actions.defer(lambda: made.append(1))
    deferred_actions.defer(lambda: made.append(2))
    assert made == []
    clock.advance(0)
    assert made == [1, 2]
    assert clock.getDelayedCalls() == []


def test_actions_deferred_by_actions_run_in_the_same_batch() -> None:
    deferred_actions, made = DeferredActions(Clock()), []

    def first() -> None:
        made.append("first")
        deferred_actions.hold()
        deferred_actions.defer(lambda: made.append("within"))
        deferred_actions.run()
        made.append("first is done")

    deferred_actions.hold()
    deferred_actions.defer(first)
    deferred_actions.run()
    assert made == ["first", "first is done", "within"]


def test_early_actions_run_once_and_later_ones_wait_for_the_end() -> None:
    clock, made = Clock(), []
    deferred_actions = DeferredActions(clock)
    deferred_actions.run_early()
    deferred_actions.hold()
    deferred_actions.defer(lambda: made.append("early"))
    deferred_actions.run_early()
    assert made == ["early"]
    deferred_actions.defer(lambda: made.append("late"))
    clock.advance(0)
    assert made == ["early"]
    deferred_actions.run()
    assert made == ["early", "late"]
    deferred_actions.defer(lambda: deferred_actions.run_early())  # within a run, nothing runs early
    clock.advance(0)
    assert clock.getDelayedCalls() == []


def test_an_action_that_raises_is_logged_and_loses_no_other() -> None:
    clock, made = Clock(), []
    deferred_actions = DeferredActions(clock)
    with capturedLogs() as events:
        deferred_actions.hold()
        deferred_actions.defer(lambda: deferred_actions.defer(lambda: made.append("later")))
        deferred_actions.defer(lambda: made.append(1 // 0))
        deferred_actions.defer(lambda: made.append("same batch"))
        deferred_actions.run()
        deferred_actions.defer(lambda: made.append("next"))
        clock.advance(0)
    assert made == ["same batch", "later", "next"]
    assert [event["log_failure"].type for event in events] == [ZeroDivisionError]
