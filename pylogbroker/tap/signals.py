"""The effects of signals on a broker's process.

    SIGTERM, SIGINT     end it; those that come meanwhile change nothing
    SIGHUP              read the configuration again and open the log again; end it if its terminal has gone away
    SIGUSR1             open the log again

Twisted handles SIGTERM and SIGINT once its reactor runs.  The others must not kill a broker that is still starting, so
they are handled from the beginning; what they ask for is done when the reactor runs.
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


@attrs.define(eq=False)
class Signals:
    """The signals of one process; `reload` and `reopen` are called in the reactor's thread."""

    _reactor: Any
    _reload: Callable[[], object]
    _reopen: Callable[[], object]
    _ends_with_terminal: bool = attrs.field(init=False, default=True)
    _has_terminal: bool = attrs.field(init=False, default=False)
    _process: int = attrs.field(init=False, default=0)
    _is_ending: bool = attrs.field(init=False, default=False)
    _ends: dict[int, Any] = attrs.field(init=False, factory=dict)

    def handle(self) -> None:
        """Begin to handle the signals."""
        self._ends_with_terminal = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN  # which nohup does
        self._has_terminal = os.isatty(_STDOUT)
        self._process = os.getpid()
        signal.signal(signal.SIGHUP, self._hang_up)
        signal.signal(signal.SIGUSR1, lambda number, frame: self._reactor.callFromThread(self._reopen))
        self._reactor.callWhenRunning(self._running)

    def _hang_up(self, number: int, frame: FrameType | None) -> None:
        is_daemon = os.getpid() != self._process  # twistd has forked since
        if self._ends_with_terminal and self._has_terminal and not is_daemon and not os.isatty(_STDOUT):
            self._end(number, frame)  # nobody could read its log or end it by Ctrl-C
        else:
            self._reactor.callFromThread(self._reload)

    def _running(self) -> None:
        """Put `_end` in front of the reactor's handlers, which are there now."""
        handlers = {number: signal.getsignal(number) for number in _ENDING}
        self._ends = {number: handler for number, handler in handlers.items() if callable(handler)}
        for number in self._ends:
            signal.signal(number, self._end)

    def _end(self, number: int, frame: FrameType | None) -> None:
        if not self._is_ending:
            self._is_ending = True
            # Twisted's handler has the process end, in the end, by the signal that it is given.
            self._ends.get(number, self._reactor.sigTerm)(number, frame)
