"""The signals that end a broker: the first one begins a clean stop, those that come meanwhile change nothing.

SIGTERM and SIGINT are what Twisted listens to as well. SIGHUP, of a terminal that goes away, would kill a process that
does not listen to it; where it is ignored (nohup) it stays so.
"""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any


def end_once_by_signals(reactor: Any) -> None:
    """Have the signals stop the reactor once. To be called when it runs and has put its own handlers in place."""
    signals = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    handlers = {number: signal.getsignal(number) for number in signals}
    stops: dict[int, Any] = {number: handler for number, handler in handlers.items() if callable(handler)}
    if handlers[signal.SIGHUP] is signal.SIG_DFL:
        stops[signal.SIGHUP] = reactor.sigTerm  # it ends the process by the signal that it is told of, in the end
    ending = False

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal ending
        if not ending:
            ending = True
            stops[number](number, frame)

    for number in stops:
        signal.signal(number, end)
