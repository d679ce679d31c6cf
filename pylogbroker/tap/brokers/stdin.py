"""Let a process live only as long as its supervisor, which holds the other end of its standard input."""

from __future__ import annotations

import signal
from contextlib import suppress
from typing import Any, Final

from twisted.internet.error import ReactorNotRunning
from twisted.internet.protocol import Protocol
from twisted.internet.stdio import StandardIO
from twisted.python.failure import Failure

_STOP_SECONDS: Final = 5.0
"""Time for a clean stop. The coordination tree may have ended with the supervisor: nobody answers then."""


class _Stop(Protocol):
    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor

    def connectionLost(self, reason: Failure | None = None) -> None:
        """Stop, also if that has begun before; the kernel ends the process if it takes too long, in any state."""
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, _STOP_SECONDS)
        with suppress(ReactorNotRunning):  # it stops anyway
            self._reactor.stop()


def stop_with_stdin(reactor: Any) -> None:
    """Stop the reactor when standard input is closed. Ctrl-C reaches the supervisor, which stops this process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    reactor.callWhenRunning(lambda: StandardIO(_Stop(reactor), reactor=reactor))
