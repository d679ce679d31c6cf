"""Committing how far the readers are: by and by, when partitions are given up, and when the program asks for it.

What counts is what the reader is done with; when the program asks, and at the end, that is all that the reader was
given. One commit is under way at a time, so that none overtakes another.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import attrs
from twisted.internet.defer import DeferredLock, ensureDeferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from pylogbroker.client.consumer.feeds import Feed
from pylogbroker.client.errors import is_retriable
from pylogbroker.errors import ErrorCode, KafkaError, PylogbrokerError
from pylogbroker.interfaces import TopicPartition

log = Logger()

Offsets = Mapping[TopicPartition, int]
Commit = Callable[[Offsets], Awaitable[None]]


def done_with(feeds: Iterable[Feed]) -> dict[TopicPartition, int]:
    """What the readers are done with and is not committed."""
    return {feed.key: feed.done for feed in feeds if feed.done >= 0 and feed.done != feed.committed}


def _may_pass(code: ErrorCode) -> bool:
    """Whether the same commit can succeed a little later. That of a topic that is gone cannot."""
    if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return False
    return code.retriable or code is ErrorCode.REBALANCE_IN_PROGRESS


@attrs.define(eq=False)
class Committer:
    """Commits offsets of a group."""

    _clock: IReactorTime
    _commit: Commit
    _refused: Callable[[ErrorCode], None]  # is told when the group does not know us any more
    _backoff: float
    _patience: float  # seconds that a commit is tried for
    _lock: DeferredLock = attrs.field(factory=DeferredLock)
    _timer: Any = None
    failures: int = 0

    def start(self, interval: float, feeds: Callable[[], Iterable[Feed]]) -> None:
        """Commit what readers are done with every so many seconds."""
        self._timer = self._clock.callLater(interval, self._by_and_by, interval, feeds)

    def stop(self) -> None:
        """Commit by and by no more."""
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None

    async def commit(
        self, offsets: Offsets, feeds: Mapping[TopicPartition, Feed], patience: float | None = None
    ) -> None:
        """Commit these; errors that may pass are tried again until patience ends."""
        if not offsets:
            return
        await self._lock.acquire()
        try:
            await self._try(offsets, self._clock.seconds() + (self._patience if patience is None else patience))
        finally:
            self._lock.release()
        for key, offset in offsets.items():
            if (feed := feeds.get(key)) is not None:
                feed.committed = offset

    async def commit_quietly(self, offsets: Offsets, feeds: Mapping[TopicPartition, Feed], patience: float) -> None:
        """The same where there is nobody to tell of a failure: it is logged, and what was read is delivered again."""
        try:
            await self.commit(offsets, feeds, patience)
        except PylogbrokerError as error:
            self.failures += 1
            log.warn("offsets were not committed: {error}", error=error)

    async def _try(self, offsets: Offsets, deadline: float) -> None:
        while True:
            try:
                await self._commit(offsets)
                return
            except KafkaError as error:
                self._refused(error.code)
                if not _may_pass(error.code) or self._clock.seconds() + self._backoff > deadline:
                    raise
            except PylogbrokerError as error:
                if not is_retriable(error) or self._clock.seconds() + self._backoff > deadline:
                    raise
            await deferLater(self._clock, self._backoff)

    def _by_and_by(self, interval: float, feeds: Callable[[], Iterable[Feed]]) -> None:
        self.start(interval, feeds)
        if not self._lock.locked:
            now = {feed.key: feed for feed in feeds()}
            ensureDeferred(self.commit_quietly(done_with(now.values()), now, interval))
