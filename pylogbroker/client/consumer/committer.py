"""Commits of the readers' offsets: periodic, on revocation, and on request.

A commit covers finished messages; on request and at shutdown, all given ones. One is in flight at a time: none
overtakes another.

Errors are retried only while the partitions are this member's. Later, a retry could undo their next reader's commits.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, Protocol

import attrs
from twisted.internet.defer import DeferredLock, TimeoutError, ensureDeferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from pylogbroker.background import run_in_background
from pylogbroker.client.consumer.fetch_buffer import FetchBuffer
from pylogbroker.client.errors import ClientError, is_retriable
from pylogbroker.errors import ErrorCode, KafkaError, PylogbrokerError
from pylogbroker.interfaces import TopicPartition
from pylogbroker.rpc.backoff import Backoff
from pylogbroker.rpc.retries import Pauses, retrying

log = Logger()

Offsets = Mapping[TopicPartition, int]
Commit = Callable[[Offsets], Awaitable[None]]

_OUTDATED: Final = frozenset({ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID})
_REBALANCING: Final = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.STALE_MEMBER_EPOCH})
"""Rejections that end when the member has the group's present generation, or its own present epoch."""


class NoLongerAssigned(ClientError):
    """Other members got partitions before their offsets were committed: their messages are delivered again."""


class CommitGuard(Protocol):
    @property
    def generation(self) -> int: ...

    def check(self) -> None:
        """Raise before the group accepts this member."""

    def commit_rejected(self, code: ErrorCode) -> None: ...


def processed_offsets(buffers: Iterable[FetchBuffer]) -> dict[TopicPartition, int]:
    return {buffer.key: buffer.done for buffer in buffers if buffer.done >= 0 and buffer.done != buffer.committed}


def _is_transient(error: BaseException) -> bool:
    if not isinstance(error, KafkaError):
        return is_retriable(error)
    if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return False
    return error.code.retriable or error.code in _REBALANCING


@attrs.define(eq=False, repr=False)
class Committer:
    _pauses: Pauses
    _commit: Commit
    _guard: CommitGuard
    _is_ours: Callable[[FetchBuffer], bool]
    _backoff: Backoff
    _timeout: float  # seconds of retries
    _lock: DeferredLock = attrs.field(factory=DeferredLock)
    _timer: Any = None
    failures: int = 0

    @property
    def _clock(self) -> IReactorTime:
        clock: IReactorTime = self._pauses.clock
        return clock

    def start(self, interval: float, buffers: Callable[[], Iterable[FetchBuffer]]) -> None:
        """Commit finished offsets every `interval` seconds."""
        self._timer = self._clock.callLater(interval, self._commit_periodically, interval, buffers)

    def stop(self) -> None:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None

    async def commit(
        self, offsets: Offsets, buffers: Mapping[TopicPartition, FetchBuffer], timeout: float | None = None
    ) -> None:
        """Commit; retry transient errors for `timeout` seconds."""
        if not offsets:
            return
        mine = {key: buffer for key in offsets if (buffer := buffers.get(key)) is not None}
        attempt = partial(self._attempt, offsets, mine.values())
        await self._lock.acquire()
        try:
            seconds = self._timeout if timeout is None else timeout
            await retrying(attempt, self._pauses, self._backoff, seconds, retriable=_is_transient)
        finally:
            self._lock.release()
        for key, buffer in mine.items():
            buffer.committed = offsets[key]

    async def commit_quietly(
        self, offsets: Offsets, buffers: Mapping[TopicPartition, FetchBuffer], timeout: float
    ) -> None:
        """Commit; log a failure instead of raising it."""
        try:
            await ensureDeferred(self.commit(offsets, buffers, timeout)).addTimeout(timeout, self._clock)
        except (PylogbrokerError, TimeoutError) as error:
            self.failures += 1
            log.warn("offsets were not committed, messages may be delivered again: {error}", error=error)

    async def _attempt(self, offsets: Offsets, mine: Iterable[FetchBuffer]) -> None:
        if given := [buffer.key for buffer in mine if not self._is_ours(buffer)]:
            raise NoLongerAssigned(f"the group has assigned {given} to other members")
        self._guard.check()
        generation = self._guard.generation
        try:
            await self._commit(offsets)
        except KafkaError as error:
            if error.code in _OUTDATED and self._guard.generation != generation:
                raise KafkaError(code=ErrorCode.REBALANCE_IN_PROGRESS) from error
            self._guard.commit_rejected(error.code)
            raise

    def _commit_periodically(self, interval: float, buffers: Callable[[], Iterable[FetchBuffer]]) -> None:
        self.start(interval, buffers)
        if not self._lock.locked:
            now = {buffer.key: buffer for buffer in buffers()}
            committing = self.commit_quietly(processed_offsets(now.values()), now, interval)
            run_in_background(log, committing, "offsets were not committed, messages may be delivered again")
