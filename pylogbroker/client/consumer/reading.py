"""Assigned partitions: fetched, distributed to streams and committed, while the group assigns them.

take     a feed for each partition, on the stream with the fewest --> start offset --> fetch
give up  stop giving messages --> wait for the reader, at most `patience` --> commit --> forget
lose     stop giving messages --> forget, since another member may read them already
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

import attrs
from twisted.internet.defer import CancelledError, Deferred, TimeoutError, ensureDeferred, maybeDeferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from pylogbroker.client.consumer.committing import Committer, done_with
from pylogbroker.client.consumer.feeds import Feed
from pylogbroker.client.consumer.fetcher import Fetcher
from pylogbroker.client.consumer.positions import Positions
from pylogbroker.client.consumer.streams import Stream
from pylogbroker.interfaces import TopicPartition

log = Logger()

#: time limit in seconds of the commit when a partition is given up
COMMIT_PATIENCE: Final = 5.0


class RebalanceListener(Protocol):
    """Callbacks for changes of the assignment. The group waits for the results of `revoked` and `lost`."""

    def assigned(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None:
        """Handle new partitions, before reading; `seek` can replace the committed offset."""

    def revoked(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None:
        """Handle partitions that are no longer read, but can still be committed."""

    def lost(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None:
        """Handle partitions that other members read already."""


class Nobody:
    def assigned(self, partitions: Collection[TopicPartition]) -> None:
        pass

    def revoked(self, partitions: Collection[TopicPartition]) -> None:
        pass

    def lost(self, partitions: Collection[TopicPartition]) -> None:
        pass


class Relay(Protocol):
    """Takes messages from streams before their reader asks. Called on the reactor thread."""

    def unread(self) -> Mapping[TopicPartition, int]:
        """Return, by partition, the first offset not given to the reader yet."""

    def forget(self, partition: TopicPartition) -> None:
        """Drop the held messages of the partition."""


class NoRelay:
    def unread(self) -> Mapping[TopicPartition, int]:
        return {}

    def forget(self, partition: TopicPartition) -> None:
        pass


@attrs.define(eq=False)
class Reading:
    """Assigned partitions and their streams."""

    _clock: IReactorTime
    _streams_of: Callable[[str], Sequence[Stream]]
    _limit: int  # buffered bytes per partition
    _patience: float  # seconds to wait for the reader to finish
    _auto_commit: bool
    listener: RebalanceListener
    committer: Committer = attrs.field(init=False)
    fetcher: Fetcher = attrs.field(init=False)
    positions: Positions = attrs.field(init=False)
    feeds: dict[TopicPartition, Feed] = attrs.field(factory=dict)
    paused: set[TopicPartition] = attrs.field(factory=set)
    relay: Relay = attrs.field(factory=NoRelay)
    _stream_of: dict[Feed, Stream] = attrs.field(factory=dict)
    _parting: set[Feed] = attrs.field(factory=set)  # being given up, but still ours
    _ending: bool = False
    _tasks: set[Deferred[None]] = attrs.field(factory=set)

    # -- called by the group ---------------------------------------------------------------------------------------

    def take(self, partitions: Mapping[TopicPartition, int | None]) -> Deferred[None]:
        """Begin to read the partitions, each on the stream with that number, or on the one with the fewest."""
        feeds = [self._open(key, number) for key, number in partitions.items() if key not in self.feeds]
        return self._spawn(self._begin(feeds))

    async def give_up(self, partitions: Collection[TopicPartition]) -> None:
        """Stop reading the partitions and commit their offsets."""
        feeds = self._close(partitions)
        self._parting.update(feeds.values())
        try:
            await self._until_returned(feeds.values())
            if self._auto_commit:
                await self.committer.commit_quietly(done_with(feeds.values()), feeds, COMMIT_PATIENCE)
            await self._tell(self.listener.revoked, partitions)
        finally:
            self._parting.difference_update(feeds.values())
            self._forget(feeds)

    async def lose(self, partitions: Collection[TopicPartition]) -> None:
        self._forget(self._close(partitions))
        await self._tell(self.listener.lost, partitions)

    def is_ours(self, feed: Feed) -> bool:
        """Return whether the group still reserves the partition for this member."""
        return self.feeds.get(feed.key) is feed or feed in self._parting

    def finish(self) -> None:
        """Count all given messages as finished, for shutdown."""
        self._ending = True
        feeds, given = self.ours(), self.given()
        for key, offset in given.items():
            feeds[key].handed = offset
        self._forget(feeds)
        self.deal_with(given, feeds)
        for feed in tuple(self._parting):
            feed.on_done()

    def close(self) -> None:
        self.committer.stop()
        self.fetcher.close()
        for task in list(self._tasks):
            task.cancel()

    # -- called by the program -------------------------------------------------------------------------------------

    def seek(self, key: TopicPartition, offset: int) -> None:
        self._move(self.feeds[key], offset)

    def pause(self, key: TopicPartition) -> None:
        """Stop giving and fetching messages; those fetched but not given are fetched again later."""
        feed, done = self.feeds[key], self.feeds[key].done
        self.paused.add(key)
        self.fetcher.feeds.pop(key, None)
        if feed.handed >= 0:
            self._move(feed, self.given()[key])
            feed.done = done  # the reader may still be processing messages

    def resume(self, key: TopicPartition) -> None:
        if key in self.paused:
            self.paused.discard(key)
            self.fetcher.add(self.feeds[key])

    def ours(self) -> dict[TopicPartition, Feed]:
        """Return the feeds being read and those being given up."""
        return {**{feed.key: feed for feed in self._parting}, **self.feeds}

    def given(self) -> dict[TopicPartition, int]:
        """Return, by partition, the offset after the messages that the readers were given."""
        unread = self.relay.unread()
        return {key: unread.get(key, feed.handed) for key, feed in self.ours().items() if feed.handed >= 0}

    def deal_with(self, offsets: Mapping[TopicPartition, int], feeds: Mapping[TopicPartition, Feed]) -> None:
        """Count messages before these offsets as finished."""
        for key, offset in offsets.items():
            feed = feeds[key]
            if feed.done < offset <= feed.handed:
                feed.done = offset
                feed.on_done()

    # -- called by the fetcher -------------------------------------------------------------------------------------

    def fed(self, feed: Feed) -> None:
        self._stream_of[feed].fed(feed)

    def out_of_range(self, feed: Feed) -> None:
        self._spawn(self._reposition(feed))

    def truncated(self, feed: Feed, end: int) -> None:
        """Handle a new leader's log that ends at `end`: later messages are not in it."""
        given = self.given()[feed.key]
        if given <= end or self.positions.goes_back(feed, given, end):
            self._move(feed, min(given, end))

    def fail_one(self, feed: Feed, error: Exception) -> None:
        if not feed.closed:
            self._stream_of[feed].fail(error)

    # -- steps -----------------------------------------------------------------------------------------------------

    def _open(self, key: TopicPartition, number: int | None) -> Feed:
        feed = Feed(*key, limit=self._limit)
        streams = self._streams_of(feed.topic)
        stream = min(streams, key=lambda each: len(each.feeds)) if number is None else streams[number]
        self.feeds[key] = feed
        self._stream_of[feed] = stream
        stream.attach(feed)
        self.fetcher.add(feed)
        return feed

    def _move(self, feed: Feed, offset: int) -> None:
        feed.begin(offset)
        self._stream_of[feed].forget(feed)
        self.relay.forget(feed.key)
        if feed.key not in self.paused:
            self.fetcher.add(feed)  # an error may have stopped fetching

    async def _begin(self, feeds: list[Feed]) -> None:
        await self._tell(self.listener.assigned, [feed.key for feed in feeds])
        await self.positions.begin(feeds)
        self.fetcher.wake()

    async def _reposition(self, feed: Feed) -> None:
        await self.positions.out_of_range(feed)
        self.fetcher.wake()

    def _close(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Feed]:
        feeds = {key: feed for key in partitions if (feed := self.feeds.pop(key, None)) is not None}
        self.paused.difference_update(feeds)
        for feed in feeds.values():
            self.fetcher.remove(feed)
            self._stream_of.pop(feed).detach(feed)
        return feeds

    async def _until_returned(self, feeds: Iterable[Feed]) -> None:
        """Wait at most `patience` for readers to finish the messages that they were given."""
        busy = [feed for feed in feeds if feed.lent]
        if self._ending:
            self.deal_with(self.given(), self.ours())
            return
        if not busy:
            return
        returned: Deferred[None] = Deferred()

        def look() -> None:
            if not returned.called and (self._ending or not any(feed.lent for feed in busy)):
                returned.callback(None)

        for feed in busy:
            feed.on_done = look
        with suppress(TimeoutError):  # another member gets its messages again
            await returned.addTimeout(self._patience, self._clock)

    def _forget(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self.relay.forget(partition)

    async def _tell(
        self, tell: Callable[[Collection[TopicPartition]], Any], partitions: Collection[TopicPartition]
    ) -> None:
        try:
            await maybeDeferred(tell, partitions)
        except Exception:
            log.failure("the rebalance listener failed")

    def _spawn(self, work: Coroutine[Any, Any, None]) -> Deferred[None]:
        task = ensureDeferred(work)
        self._tasks.add(task)
        done: Deferred[None] = Deferred()

        def finish(result: Failure | None) -> None:
            self._tasks.discard(task)
            if isinstance(result, Failure) and not result.check(CancelledError):
                log.failure("a task of the consumer failed", result)
            done.callback(None)

        task.addBoth(finish)
        return done
