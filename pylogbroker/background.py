"""Coroutines that nobody waits for, and cleanup that awaits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.logger import Logger
from twisted.python.failure import Failure

T = TypeVar("T")


async def with_cleanup(work: Awaitable[T], cleanup: Callable[[], Awaitable[object]]) -> T:
    """Return the result of some work, or raise its error, after the cleanup.

    A `finally` that awaits would do so in a collected coroutine, too. Python forbids that, and writes to stderr. There
    the cleanup is left out: nothing would resume it.
    """
    try:
        result = await work
    except GeneratorExit:
        raise
    except BaseException:
        await cleanup()
        raise
    await cleanup()
    return result


def run_in_background(
    log: Logger, work: Coroutine[Deferred[Any], Any, object], problem: str, **about: Any
) -> Deferred[Any]:
    """Run a coroutine, and log its unexpected error at once: a message that `about` fills, and the traceback.

    Return a Deferred for those who cancel it. Twisted logs errors of a dropped Deferred when it is collected, if ever,
    and cannot say what they stopped.
    """

    def failed(failure: Failure) -> None:
        log.failure(problem, failure, **about)

    return ensureDeferred(work).addErrback(failed)
