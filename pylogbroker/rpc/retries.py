"""Retries of client and broker: backoff, pauses that end with their owner, and one loop.

    pauses = Pauses(reactor)
    await retrying(attempt, pauses, Backoff.fixed(1.0), retriable=is_retriable)

After a deadline the last error is raised; an error that is not retriable, at once; after `Pauses.close`, Closed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine
from math import inf
from typing import Any, TypeVar

import attrs
from twisted.application.internet import backoffPolicy
from twisted.internet.defer import Deferred, TimeoutError, ensureDeferred

from pylogbroker.config import Values
from pylogbroker.rpc.errors import Closed, RequestTimedOut

T = TypeVar("T")

_JITTER = 0.2  # fraction of a pause, either way, as in Kafka's clients


@attrs.frozen
class Backoff:
    """Exponential backoff with jitter; pauses in seconds."""

    first: float
    longest: float
    random: Callable[[], float] = random.random
    _policy: Callable[[int], float] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "_policy", backoffPolicy(self.first, self.longest, 2, lambda: 0.0))

    @classmethod
    def fixed(cls, seconds: float) -> Backoff:
        """Return a backoff whose pauses are all the same."""
        return cls(seconds, seconds, lambda: 0.5)

    @classmethod
    def of(cls, settings: Values, name: str = "retry.backoff") -> Backoff:
        """Read `NAME.ms` and `NAME.max.ms`."""
        first = settings.integer(f"{name}.ms") / 1000
        return cls(first, max(first, settings.integer(f"{name}.max.ms") / 1000))

    def pause(self, failures: int) -> float:
        """Return the seconds after `failures` (at least 1) failures."""
        return self._policy(failures - 1) * (1 + _JITTER * (2 * self.random() - 1))


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
    deadline = clock.seconds() + seconds
    failures = 0
    last: Exception | None = None
    while True:
        attempt = ensureDeferred(work())
        try:
            if seconds < inf:
                attempt.addTimeout(max(0.0, deadline - clock.seconds()), clock)
            return await attempt
        except TimeoutError:
            raise last or RequestTimedOut(f"not done within {seconds:g} s") from None
        except Exception as error:
            failures += 1
            last = error
            left = deadline - clock.seconds()
            if left <= 0 or not retriable(error):
                raise
            if failed is not None:
                failed(error)
        await pauses.pause(min(left, backoff.pause(failures)))
