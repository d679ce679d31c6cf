"""Signal handlers of a broker's process.

    SIGTERM, SIGINT     stop the broker; further ones during the stop are ignored
    SIGHUP              reload the configuration and reopen the log; stop the broker if its terminal was closed
    SIGUSR1             reopen the log

SIGHUP and SIGUSR1 must not kill a starting broker, so their handlers are installed before; the actions run when the
reactor does.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import FrameType
from typing import Any

import attrs

_ENDING = (signal.SIGTERM, signal.SIGINT)
_STDOUT = 1


@attrs.define(eq=False, repr=False)
class Signals:
    """`reload` and `reopen` run on the reactor's thread."""

    _reactor: Any
    _reload: Callable[[], object]
    _reopen: Callable[[], object]
    _ends_with_terminal: bool = attrs.field(init=False, default=True)
    _has_terminal: bool = attrs.field(init=False, default=False)
    _process: int = attrs.field(init=False, default=0)
    _is_ending: bool = attrs.field(init=False, default=False)
    _ends: dict[int, Any] = attrs.field(init=False, factory=dict)

    def handle(self) -> None:
        self._ends_with_terminal = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN  # set by nohup
        self._has_terminal = os.isatty(_STDOUT)
        self._process = os.getpid()
        signal.signal(signal.SIGHUP, self._hang_up)
        signal.signal(signal.SIGUSR1, lambda number, frame: self._reactor.callFromThread(self._reopen))
        self._reactor.callWhenRunning(self._running)

    def _hang_up(self, number: int, frame: FrameType | None) -> None:
        is_daemon = os.getpid() != self._process  # twistd has forked
        if self._ends_with_terminal and self._has_terminal and not is_daemon and not os.isatty(_STDOUT):
            self._end(number, frame)  # neither log nor Ctrl-C has a terminal
        else:
            self._reactor.callFromThread(self._reload)

    def _running(self) -> None:
        """Install `_end` in front of the reactor's handlers, which exist by now."""
        handlers = {number: signal.getsignal(number) for number in _ENDING}
        self._ends = {number: handler for number, handler in handlers.items() if callable(handler)}
        for number in self._ends:
            signal.signal(number, self._end)

    def _end(self, number: int, frame: FrameType | None) -> None:
        if not self._is_ending:
            self._is_ending = True
            # Twisted's handler ends the process by that signal after the stop.
            self._ends.get(number, self._reactor.sigTerm)(number, frame)
