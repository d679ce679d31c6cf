"""Handlers that a test leaves behind are gone after it."""

from __future__ import annotations

import signal

import pytest

from tests.support.signal_handlers import kept_handlers


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_handlers_are_restored(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with kept_handlers():
        signal.signal(number, lambda *_: None)
    assert signal.getsignal(number) is before


def test_handlers_are_restored_after_an_error() -> None:
    def fail() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise LookupError

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(LookupError), kept_handlers():
        fail()
    assert signal.getsignal(signal.SIGINT) is before
