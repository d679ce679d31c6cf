"""Pauses of loops."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from pylogbroker.broker.pauses import IdlePause, RetryPauses
from tests.broker.trees import now


def test_a_pause_lasts_as_long_as_wanted() -> None:
    clock, ended = Clock(), []
    Deferred.fromCoroutine(RetryPauses(clock).pause(2)).addCallback(ended.append)
    clock.advance(1.9)
    assert not ended
    clock.advance(0.1)
    assert ended == [None]


def test_the_end_of_the_loop_ends_all_pauses_and_leaves_no_timer() -> None:
    clock, ended = Clock(), []
    pauses = RetryPauses(clock)
    for _ in range(2):
        Deferred.fromCoroutine(pauses.pause(2)).addCallback(ended.append)
    pauses.end()
    now(pauses.pause(2))
    assert (len(ended), clock.getDelayedCalls()) == (2, [])
    pauses.end()


def test_an_idle_loop_is_woken() -> None:
    idle = IdlePause()
    idle.wake()  # without effect: nobody pauses
    woken = Deferred.fromCoroutine(idle.until_woken())
    assert not woken.called
    idle.wake()
    assert woken.called
    again = Deferred.fromCoroutine(idle.until_woken())
    assert not again.called
    idle.wake()
    assert again.called
