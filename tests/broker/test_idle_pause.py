"""Pauses of a loop without work."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from pylogbroker.broker.runtime.idle_pause import IdlePause


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
