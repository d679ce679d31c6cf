"""Answers that take a while, a bounded number at a time."""

from __future__ import annotations

from collections.abc import Coroutine
from functools import partial
from typing import Any

import attrs
from twisted.internet.defer import CancelledError, Deferred, ensureDeferred
from twisted.python.failure import Failure
from twisted.web.server import NOT_DONE_YET, Request


@attrs.define(eq=False, repr=False)
class LateAnswers:
    """Counts the answers in preparation; work whose client has gone is cancelled."""

    most: int
    running: int = attrs.field(default=0, init=False)
    _works: set[Deferred[None]] = attrs.field(factory=set, init=False)

    @property
    def is_full(self) -> bool:
        return self.running >= self.most

    def begin(self, request: Request, answer: Coroutine[Any, Any, None]) -> int:
        """Let `answer` write and finish the response; return what `render` must."""
        self.running += 1
        finished: Deferred[None] = request.notifyFinish()
        finished.addBoth(self._finished)
        work = ensureDeferred(answer)
        finished.addErrback(lambda _: work.cancel())
        self._works.add(work)
        work.addBoth(partial(self._ended, work))
        work.addErrback(
            lambda failure: None if failure.check(CancelledError) else request.processingFailed(failure) and None
        )
        return NOT_DONE_YET

    def cancel(self) -> None:
        """Cancel all work; the connections are left to be closed."""
        for work in tuple(self._works):
            work.cancel()

    def _ended(self, work: Deferred[None], result: Any) -> Any:
        self._works.discard(work)
        return result

    def _finished(self, result: Failure | None) -> Failure | None:
        self.running -= 1
        return result
