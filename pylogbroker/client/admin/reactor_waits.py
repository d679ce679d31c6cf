"""Waits of a router on a reactor."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Self, TypeVar

from twisted.internet.defer import Deferred, FirstError, ensureDeferred, gatherResults

from pylogbroker.client.admin.routing import call_seconds
from pylogbroker.config import Values
from pylogbroker.rpc.backoff import Backoff
from pylogbroker.rpc.retries import Pauses, retrying

T = TypeVar("T")


class ReactorWaits:
    def __init__(self, pauses: Pauses, backoff: Backoff, seconds: float) -> None:
        self._pauses = pauses
        self._backoff = backoff
        self._seconds = seconds

    @classmethod
    def of(cls, reactor: Any, settings: Values) -> Self:
        return cls(Pauses(reactor), Backoff.of(settings), call_seconds(settings))

    def close(self) -> None:
        self._pauses.close()

    def start(self, work: Coroutine[Any, Any, T]) -> Deferred[T]:
        return ensureDeferred(work)

    async def together(self, works: Iterable[Coroutine[Any, Any, None]]) -> None:
        try:
            await gatherResults([ensureDeferred(work) for work in works], consumeErrors=True)
        except FirstError as error:
            raise error.subFailure.value from None  # type: ignore[misc]

    async def retrying(self, work: Callable[[], Awaitable[T]], retriable: Callable[[BaseException], bool]) -> T:
        attempt: Callable[[], Any] = work
        result: T = await retrying(attempt, self._pauses, self._backoff, self._seconds, retriable=retriable)
        return result
