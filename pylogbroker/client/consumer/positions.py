"""Where reading begins: at the committed offset, or, without one that is valid, where `auto.offset.reset` says."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Final

import attrs
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from pylogbroker.client.cluster import Cluster
from pylogbroker.client.consumer.feeds import Feed
from pylogbroker.client.consumer.looking_up import EARLIEST, LATEST, look_up
from pylogbroker.client.errors import ClientError, OutOfRange, Truncated, error_of, is_retriable
from pylogbroker.errors import PylogbrokerError
from pylogbroker.interfaces import TopicPartition

log = Logger()

POLICIES: Final[Mapping[str, int | None]] = {
    "earliest": EARLIEST,
    "smallest": EARLIEST,
    "latest": LATEST,
    "largest": LATEST,
    "none": None,
}
"""What `auto.offset.reset` may say, in Kafka's words of today and in those of old."""


class NoOffset(ClientError):
    """A group has committed nothing for a partition, and `auto.offset.reset` says that this is an error."""


Committed = Callable[[Iterable[TopicPartition]], Coroutine[Any, Any, Mapping[TopicPartition, int]]]


@attrs.define(eq=False)
class Positions:
    """Gives feeds the offsets to begin at."""

    _cluster: Cluster
    _clock: IReactorTime
    _policy: str
    _read_committed: bool
    _backoff: float
    _committed: Committed
    _on_error: Callable[[Feed, Exception], None]

    async def begin(self, feeds: Iterable[Feed]) -> None:
        """Let feeds that are nowhere begin where the group has left off."""
        waiting = _nowhere(feeds)
        while waiting:
            try:
                committed = await self._committed([feed.key for feed in waiting])
                break
            except PylogbrokerError as error:
                waiting = await self._after(error, _nowhere(waiting))
        waiting = _nowhere(waiting)
        for feed in waiting:
            if (offset := committed.get(feed.key, -1)) >= 0:
                feed.begin(offset)
                feed.committed = offset
        await self.reset(_nowhere(waiting))

    async def reset(self, feeds: Iterable[Feed]) -> None:
        """Let feeds that are nowhere begin where the setting says."""
        time = POLICIES[self._policy]
        if time is None:
            for feed in _nowhere(feeds):
                self._on_error(feed, NoOffset(f"nothing is committed for {feed.topic}/{feed.partition}"))
            return
        waiting = _nowhere(feeds)
        while waiting:
            try:
                found, refused = await look_up(
                    self._cluster, {feed.key: time for feed in waiting}, self._read_committed
                )
            except PylogbrokerError as error:
                waiting = await self._after(error, _nowhere(waiting))
                continue
            for feed in _nowhere(waiting):
                if feed.key in found:
                    feed.begin(found[feed.key])
                elif not refused[feed.key].retriable:
                    self._on_error(feed, error_of(refused[feed.key]))
            waiting = [feed for feed in _nowhere(waiting) if feed.key not in found and refused[feed.key].retriable]
            if waiting:
                await self._pause()

    async def out_of_range(self, feed: Feed) -> None:
        """What was to be fetched is not there: begin elsewhere, or tell the reader."""
        offset, begun = feed.position, feed.round
        log.info(
            "{topic}/{partition} has no offset {offset}", topic=feed.topic, partition=feed.partition, offset=offset
        )
        feed.position = -1
        try:
            if POLICIES[self._policy] is None:
                first, end = [await self._edge(feed, time) for time in (EARLIEST, LATEST)]
                self._on_error(feed, OutOfRange(feed.topic, feed.partition, offset, first, end))
            elif feed.round == begun:
                await self._jump(feed)
        except PylogbrokerError as error:
            self._on_error(feed, error)

    def goes_back(self, feed: Feed, offset: int, end: int) -> bool:
        """Whether to read on where the log was cut, behind which messages were given already; or tell the reader."""
        error = Truncated(feed.topic, feed.partition, offset, end)
        if POLICIES[self._policy] is None:
            feed.position = -1
            self._on_error(feed, error)
            return False
        log.warn("{error}", error=error)
        return True

    async def _edge(self, feed: Feed, time: int) -> int:
        """Where the partition begins or ends; -1 if nobody says."""
        found, _ = await look_up(self._cluster, {feed.key: time}, self._read_committed)
        return found.get(feed.key, -1)

    async def _jump(self, feed: Feed) -> None:
        """As `reset`, but what is buffered stays to be read."""
        time = POLICIES[self._policy]
        begun = feed.round
        while not feed.closed and feed.round == begun and feed.position < 0 and time is not None:
            found, _ = await look_up(self._cluster, {feed.key: time}, self._read_committed)
            if feed.key in found and feed.round == begun:
                feed.jump(found[feed.key])
            elif feed.round == begun:
                await self._pause()

    async def _after(self, error: PylogbrokerError, feeds: list[Feed]) -> list[Feed]:
        """Who is to be tried again after this."""
        if is_retriable(error):
            await self._pause()
            return feeds
        for feed in feeds:
            self._on_error(feed, error)
        return []

    async def _pause(self) -> None:
        await deferLater(self._clock, self._backoff)


def _nowhere(feeds: Iterable[Feed]) -> list[Feed]:
    return [feed for feed in feeds if feed.position < 0 and not feed.closed]
