"""Base of the clients without Deferreds: created, called and closed on the background reactor."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from types import TracebackType
from typing import Generic, Self, TypeVar

from twisted.logger import Logger

from pylogbroker.client import arguments
from pylogbroker.client.sync.background import EXIT_TIMEOUT_SECONDS, TimedOut, running
from pylogbroker.config.parsing import closest
from pylogbroker.errors import ConfigError, PylogbrokerError

log = Logger()
C = TypeVar("C")
T = TypeVar("T")

_TYPO_SIMILARITY_MIN = 0.8
#: default timeout of a call
SECONDS_MAX = 60.0
#: for a `close`, beyond its own timeout
_CLOSE_GRACE_SECONDS = 5.0
#: for the `close` of a `with` block that raised an exception
CLOSE_AFTER_ERROR_SECONDS = 3.0


class BlockingClient(Generic[C]):
    """`options` are arguments that the class without blocking checks, all but a misspelt `timeout`."""

    _client: C

    def __init__(self, make: Callable[..., C], timeout: float, options: Iterable[str] = ()) -> None:
        self.timeout = arguments.seconds("timeout", timeout)
        if not self.timeout:
            raise arguments.invalid("timeout", timeout, "more than 0 seconds")
        for name in options:
            if name == "reactor":
                raise ConfigError("reactor: leave it out; clients without Deferreds share one in a thread")
            if closest(name, ("timeout",), _TYPO_SIMILARITY_MIN):
                raise ConfigError(f"{name} is not a setting of this client: did you mean the argument timeout?")
        self._background = running()
        self._name = type(self).__name__
        self._is_closed = False
        reactor = self._background.reactor

        async def begin() -> None:
            self._client = make(reactor=reactor)
            self._background.at_exit(self, partial(self._finish, EXIT_TIMEOUT_SECONDS))

        self._background.call(begin, self._seconds(None), self._name)

    def __repr__(self) -> str:
        return repr(self._client)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close; after an exception only briefly, adding an error of closing as a note."""
        if error is None:
            self.close()
            return
        try:
            self.close(min(self.timeout, CLOSE_AFTER_ERROR_SECONDS))
        except PylogbrokerError as another:
            error.add_note(f"{self._name}: {another}")
            log.warn("{name}: {error}", name=self._name, error=another)

    def close(self, timeout: float | None = None) -> None:
        """Close like the asynchronous class. Idempotent."""
        seconds = self._seconds(timeout)
        longer = math.inf if seconds is None else seconds + _CLOSE_GRACE_SECONDS
        self._call("close", partial(self._finish, seconds), longer, keep=True)

    async def _finish(self, seconds: float | None) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._background.forget(self)
            await self._close(seconds)

    async def _close(self, seconds: float | None) -> None:
        raise NotImplementedError

    def _call(self, what: str, work: Callable[[], Awaitable[T]], timeout: float | None, keep: bool = False) -> T:
        try:
            return self._background.call(work, self._seconds(timeout), f"{self._name}.{what}", keep)
        except TimedOut as error:
            raise self._explained(error) from None

    def _explained(self, error: TimedOut) -> TimedOut:
        trouble = self._trouble()
        return TimedOut(f"{error}; {trouble}") if trouble else error

    def _trouble(self) -> str:
        return ""

    def _seconds(self, timeout: float | None) -> float | None:
        seconds = self.timeout if timeout is None else arguments.seconds("timeout", timeout)
        return None if seconds == math.inf else seconds
