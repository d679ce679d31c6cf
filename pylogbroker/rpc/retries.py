"""Retries of client and broker on a reactor: pauses that end with their owner, and one loop.

    pauses = Pauses(reactor)
    await retrying(attempt, pauses, Backoff.fixed(1.0), retriable=is_retriable)

After a deadline the last error is raised; an error that is not retriable, at once; after `Pauses.close`, Closed.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from math import inf
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, TimeoutError, ensureDeferred

from pylogbroker.rpc.backoff import Backoff, RetryPolicy
from pylogbroker.rpc.errors import Closed, RequestTimedOut

T = TypeVar("T")


class Pauses:
    """Pauses of one owner, which end when it is closed."""

    def __init__(self, clock: Any) -> None:
        self.clock = clock
        self._waiting: dict[Deferred[None], None] = {}
        self._closed = False

    @property
    def is_closed(self) -> bool:
        return self._closed

    def pause(self, seconds: float) -> Deferred[None]:
        """Fire after `seconds`; fail with Closed on `close`."""
        timer: Any = None
        waiting: Deferred[None] = Deferred(lambda _: timer.cancel())
        if self._closed:
            waiting.errback(Closed("closed"))
            return waiting
        timer = self.clock.callLater(seconds, self._over, waiting)
        self._waiting[waiting] = None
        return waiting.addBoth(self._forget, waiting, timer)

    def close(self) -> None:
        """End all waits, also later ones."""
        self._closed = True
        for waiting in tuple(self._waiting):
            waiting.errback(Closed("closed"))

    def _over(self, waiting: Deferred[None]) -> None:
        waiting.callback(None)

    def _forget(self, result: T, waiting: Deferred[None], timer: Any) -> T:
        self._waiting.pop(waiting, None)
        if timer.active():
            timer.cancel()
        return result


async def retrying(
    work: Callable[[], Coroutine[Any, Any, T] | Deferred[T]],
    pauses: Pauses,
    backoff: Backoff,
    seconds: float = inf,
    *,
    retriable: Callable[[BaseException], bool],
    failed: Callable[[Exception], object] | None = None,
) -> T:
    """Return the result of `work`, which is called again after retriable errors, for `seconds` at most.

    `failed` gets each error that is retried. Raise Closed as soon as the pauses are closed while one lasts.
    """
    clock = pauses.clock
    policy = RetryPolicy(backoff, clock.seconds() + seconds, retriable, failed)
    last: Exception | None = None
    while True:
        attempt = ensureDeferred(work())
        try:
            if seconds < inf:
                attempt.addTimeout(max(0.0, policy.deadline - clock.seconds()), clock)
            return await attempt
        except TimeoutError:
            raise last or RequestTimedOut(f"not done within {seconds:g} s") from None
        except Exception as error:
            last = error
            pause = policy.pause_after(error, clock.seconds())
        await pauses.pause(pause)
