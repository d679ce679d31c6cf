"""Watch that logs the line of code that blocks the reactor.

A thread posts a few calls per second to the reactor. If the reactor's thread uses more processor time than the limit
before such a call runs, the watch logs its place. Delays by a loaded machine or slow disk use none.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Final

import attrs
from twisted.logger import Logger

from pylogbroker.broker.requests.api import Api
from pylogbroker.broker.runtime.resources import LogRateLimit
from pylogbroker.system import thread_timer

log = Logger()

_LOOKS_PER_LIMIT: Final = 4
_PACKAGE: Final = "pylogbroker."
_SOURCES: Final = f"{Path(__file__).resolve().parents[2]}{os.sep}"


@attrs.define(eq=False, repr=False)
class StallWatch:
    """Logs reactor iterations of more than `limit_ms` processor time, each function once a minute; 0 disables it.

    Handlers of `apis` are named.
    """

    _reactor: Any
    _limit_ms: int
    _apis: Sequence[Api]
    _reported: LogRateLimit = attrs.field(factory=LogRateLimit, init=False)
    _stopped: threading.Event = attrs.field(factory=threading.Event, init=False)
    _thread: threading.Thread | None = attrs.field(default=None, init=False)

    def start(self) -> None:
        if self._limit_ms > 0 and not self._stopped.is_set():
            arguments = threading.get_ident(), {api.module: api.name for api in self._apis}
            self._thread = threading.Thread(target=self._watch, args=arguments, name="stall watch", daemon=True)
            self._thread.start()

    async def stop(self) -> None:
        """End the thread, which takes no longer than it has to wait for the interpreter."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self, thread: int, apis: Mapping[str, str]) -> None:
        limit = self._limit_ms / 1000
        processor_time = thread_timer(thread)
        begun, answered = 0.0, threading.Event()
        answered.set()
        while not self._stopped.wait(limit / _LOOKS_PER_LIMIT):
            used = processor_time()
            if answered.is_set():
                begun, answered = used, threading.Event()
                self._reactor.callFromThread(answered.set)
            elif used - begun >= limit:
                frame = sys._current_frames().get(thread)
                if frame is not None and not answered.is_set():
                    self._report(frame, apis, used - begun)
                del frame  # it holds the values of all callers
                begun = used  # report an iteration that goes on again

    def _report(self, frame: FrameType, apis: Mapping[str, str], seconds: float) -> None:
        code = frame.f_code  # one report per function
        if not self._reported.is_due(f"{code.co_filename} {code.co_qualname}", int(time.time() * 1000)):
            return
        log.warn(
            "other connections wait: the reactor has been busy for {ms} ms of processor time at {place}{api}",
            ms=round(seconds * 1000),
            place=where(frame),
            api=_handling(frame, apis),
        )


def where(frame: FrameType) -> str:
    """Return a frame's place, and its caller's in this package."""
    own = next(filter(_is_own, _callers(frame)), frame)
    return _place(frame) if own is frame else f"{_place(frame)}, called from {_place(own)}"


def _is_own(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).startswith(_PACKAGE)


def _place(frame: FrameType) -> str:
    code = frame.f_code
    return f"{code.co_filename.removeprefix(_SOURCES)}:{frame.f_lineno} in {code.co_qualname}"


def _handling(frame: FrameType, apis: Mapping[str, str]) -> str:
    """Return the calling handler's API, as the end of a sentence."""
    for caller in _callers(frame):
        name = apis.get(caller.f_globals.get("__name__", ""))
        if name is not None:
            return f", handling {name}"
    return ""


def _callers(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back
