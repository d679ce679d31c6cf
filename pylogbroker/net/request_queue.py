"""Requests of one connection before their handlers run.

received --> splitter --> frames --> the connection's next round of work
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred

from pylogbroker.wire.frame_splitter import FrameSplitter


class RequestQueue:
    """Frames in the order of their requests.

    `frames` has all requests of a read before the first of them begins. `at_work_bytes` is the memory of requests that
    hold the next ones and have no slot for their answer yet. These are large requests that wait for those of other
    connections, and long ones that are being decoded.
    """

    __slots__ = ("_work", "at_work_bytes", "frames", "splitter")

    def __init__(self, request_bytes_max: int) -> None:
        self.splitter = FrameSplitter(request_bytes_max)
        self.frames: deque[memoryview] = deque()
        self.at_work_bytes = 0
        self._work: Deferred[Any] | None = None

    def cancel_with_connection(self, work: Deferred[Any]) -> None:
        """Cancel `work` if the connection ends before it: the decoding of a request, or an authentication."""
        self._work = work
        work.addBoth(self._work_over, work)

    def _work_over(self, result: Any, work: Deferred[Any]) -> Any:
        if self._work is work:
            self._work = None
        return result

    def leave(self) -> Callable[[], None] | None:
        """Drop the requests. Call the result in any thread: freeing a large buffer takes milliseconds."""
        self.frames.clear()
        free = self.splitter.forget()  # now: protocol and transport form a reference cycle
        if self._work is not None:
            self._work.cancel()
        return free
