"""Coroutines that run on their own: nobody takes their results."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.logger import Logger
from twisted.python.failure import Failure


def run_in_background(log: Logger, work: Coroutine[Deferred[Any], Any, object], problem: str, **about: Any) -> None:
    """Run a coroutine, and log its unexpected error at once: a message that `about` fills, and the traceback.

    Twisted logs errors of a dropped Deferred when it is collected, if ever, and cannot say what they stopped.
    """

    def failed(failure: Failure) -> None:
        log.failure(problem, failure, **about)

    ensureDeferred(work).addErrback(failed)
