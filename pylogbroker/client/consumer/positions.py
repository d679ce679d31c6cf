"""Start offsets: the committed offset or, without a valid one, the choice of `auto.offset.reset`."""

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
"""Values of `auto.offset.reset`, current and old."""


class NoOffset(ClientError):
    """The group has no committed offset for a partition, and `auto.offset.reset` is none."""


Committed = Callable[[Iterable[TopicPartition]], Coroutine[Any, Any, Mapping[TopicPartition, int]]]


@attrs.define(eq=False)
class Positions:
    """Gives feeds their start offsets."""

    _cluster: Cluster
    _clock: IReactorTime
    _policy: str
    _read_committed: bool
    _backoff: float
    _committed: Committed
    _on_error: Callable[[Feed, Exception], None]

    async def begin(self, feeds: Iterable[Feed]) -> None:
        """Start feeds without a position at the group's committed offsets."""
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
        """Start feeds without a position where `auto.offset.reset` says."""
        time = POLICIES[self._policy]
        if time is None:
            for feed in _nowhere(feeds):
                self._on_error(
                    feed,
                    NoOffset(
                        f"auto.offset.reset is none, but no offset is committed for {feed.topic}/{feed.partition}"
                    ),
                )
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
        """Handle a fetch position out of range: reset it, or report the error to the reader."""
        offset, begun = feed.position, feed.round
        log.info(
            "offset {offset} of {topic}/{partition} is out of range",
            topic=feed.topic,
            partition=feed.partition,
            offset=offset,
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
        """Return whether to reread from a truncation below messages already given; otherwise report it."""
        error = Truncated(feed.topic, feed.partition, offset, end)
        if POLICIES[self._policy] is None:
            feed.position = -1
            self._on_error(feed, error)
            return False
        log.warn("{error}", error=error)
        return True

    async def _edge(self, feed: Feed, time: int) -> int:
        found, _ = await look_up(self._cluster, {feed.key: time}, self._read_committed)
        return found.get(feed.key, -1)

    async def _jump(self, feed: Feed) -> None:
        """Reset the fetch position, but keep buffered messages."""
        time = POLICIES[self._policy]
        begun = feed.round
        while not feed.closed and feed.round == begun and feed.position < 0 and time is not None:
            found, _ = await look_up(self._cluster, {feed.key: time}, self._read_committed)
            if feed.key in found and feed.round == begun:
                feed.jump(found[feed.key])
            elif feed.round == begun:
                await self._pause()

    async def _after(self, error: PylogbrokerError, feeds: list[Feed]) -> list[Feed]:
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
