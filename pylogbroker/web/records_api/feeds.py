"""Feeds of topics: new records, read and made JSON once for all who follow.

A feed has followers, and the last chunks of records: each one is the bytes of an event, which all followers share. It
exists as long as it has followers. Its head is where it has read to; followers that begin earlier read up to the head
first.

    Feed.run    news? -> read a chunk -> keep it -> send it to the followers that are at the head, in slices

Followers that do not take events keep neither the feed nor others waiting. When they do again, the next chunks are
those that the feed still has; a follower for whom that is too late reads from the log like a new one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Protocol

import attrs
from twisted.internet.defer import CancelledError, Deferred, DeferredSemaphore
from twisted.logger import Logger

from pylogbroker.background import run_in_background
from pylogbroker.broker.services import Services
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.long_loops import give_way
from pylogbroker.web.follower_counts import FollowersNow, FollowingTotals
from pylogbroker.web.records_api.fetching import REGION_BYTES, MemberForm, PieceSelection, first_offset, read_piece
from pylogbroker.web.records_api.framing import Framing
from pylogbroker.web.records_api.news import PASSING, REMOTE_SECONDS, News, TopicChanges, sleep
from pylogbroker.web.records_api.positions import Positions, led_partitions, positions_text
from pylogbroker.web.router.values import NUMBER_MAX

log = Logger()

KEPT_BYTES_MAX: Final = 1024 * 1024
"""Bytes of chunks that a feed keeps, and the last chunk."""
KEPT_CHUNKS_MAX: Final = 256
ALL_KEPT_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes that all feeds keep, but for the last chunk of each."""
CHUNK_CHARACTERS_MAX: Final = 64 * 1024
"""Characters of a chunk, but for its last record."""
READERS_MAX: Final = 8
"""Followers that read older records at a time; others wait until one has a piece."""
PARTITIONS_MAX: Final = 100
"""Partitions that one connection follows: positions of all are the id of each event."""
SILENCE_SECONDS_MAX: Final = 15.0
"""Then something is sent: proxies close silent connections."""


@attrs.define(eq=False, repr=False)
class FeedChunk:
    """Records that follow each other in the feed, and the positions behind them."""

    number: int
    payload: bytes
    positions: Positions
    next: str
    """The positions as a text."""
    records: int
    _frames: dict[Framing, bytes] = attrs.field(factory=dict, init=False)

    @property
    def size(self) -> int:
        return len(self.payload) + sum(map(len, self._frames.values()))

    def frame(self, framing: Framing) -> bytes:
        """Return the event; made once for each framing."""
        made = self._frames.get(framing)
        if made is None:
            made = self._frames[framing] = framing.frame(self.payload, self.next)
        return made


class Follower(Protocol):
    """Connection that follows a feed. Calls return at once."""

    @property
    def positions(self) -> Positions:
        """Offsets behind the records that were sent."""

    def is_allowed(self, memory: dict[tuple[str, str], bool]) -> bool:
        """Return whether the follower may still read the topic; `memory` has the answers for its kind."""

    def send_new(self) -> None:
        """Send what the feed has and the follower has not, unless it takes nothing now."""

    def stay_open(self, silent_since: float) -> None:
        """Send something unless something was sent later."""

    def end(self, reason: str) -> None:
        """Say why no more events come, and close the connection."""


FeedKey = tuple[str, tuple[int, ...] | None, MemberForm]
"""Topic, partitions, and form of keys and values; None for all partitions, also those that are added."""


def feed_key(topic: str, positions: Positions, form: MemberForm, has_all: bool) -> FeedKey:
    return topic, None if has_all else tuple(sorted(positions)), form


@attrs.define(eq=False, repr=False)
class Feeds:
    """The feeds that have followers."""

    _changes: TopicChanges
    counts: FollowingTotals = attrs.field(factory=FollowingTotals, init=False)
    _feeds: dict[FeedKey, Feed] = attrs.field(factory=dict, init=False)
    readers: DeferredSemaphore = attrs.field(factory=lambda: DeferredSemaphore(READERS_MAX), init=False)

    def __len__(self) -> int:
        return len(self._feeds)

    @property
    def followers(self) -> int:
        return sum(len(feed.followers) for feed in self._feeds.values())

    def find(self, key: FeedKey) -> Feed | None:
        """Return the feed with a key; None if it has no followers."""
        return self._feeds.get(key)

    def feed(self, services: Services, key: FeedKey, positions: Positions) -> Feed:
        """Return the feed with a key; a new one begins at the positions, which are the ends of its partitions."""
        feed = self.find(key)
        if feed is None:
            feed = Feed(services, key, dict(positions), self.kept_bytes_max, self.readers, self.counts, self._changes)
            self._feeds[key] = feed
            services.runtime.clock.callLater(0, self._begin, key, feed)
        return feed

    def _begin(self, key: FeedKey, feed: Feed) -> None:
        if feed.has_ended:  # the broker stops
            return
        work = run_in_background(log, feed.run(), "a feed of {topic} failed", topic=feed.topic)
        feed.stop = work.cancel
        work.addBoth(lambda _: self._ended(key, feed))

    async def by_topic(self, topic: str = "") -> list[FollowersNow]:
        """Return the topics that have followers, or one, with those that are behind. Gives way to other work."""
        topics: dict[str, FollowersNow] = {}
        for feed in [feed for feed in self._feeds.values() if topic in ("", feed.topic)]:
            ends = feed.ends()
            followers = behind = lag = 0
            for follower in tuple(feed.followers):
                await give_way()
                positions, followers = follower.positions, followers + 1
                behind += positions != feed.positions
                lag = max(lag, sum(max(0, end - positions.get(index, end)) for index, end in ends.items()))
            before = topics.get(feed.topic, FollowersNow(feed.topic, 0, 0, 0))
            topics[feed.topic] = FollowersNow(
                feed.topic, before.followers + followers, before.behind + behind, max(before.lag, lag)
            )
        return list(topics.values())

    def kept_bytes_max(self) -> int:
        return min(KEPT_BYTES_MAX, ALL_KEPT_BYTES_MAX // max(1, len(self._feeds)))

    def stop(self) -> None:
        for key, feed in tuple(self._feeds.items()):
            feed.stop()
            self._ended(key, feed)

    def _ended(self, key: FeedKey, feed: Feed) -> None:
        if self._feeds.get(key) is feed:
            del self._feeds[key]
        feed.end("the broker stops, or the feed failed: connect again")


def _nothing() -> None:
    """Stop nothing: the feed has not begun."""


@attrs.define(eq=False, repr=False)
class Feed:
    """New records of some partitions of a topic."""

    services: Services
    _key: FeedKey
    positions: Positions
    """Head: behind the last chunk."""
    _kept_bytes_max: Callable[[], int]
    readers: DeferredSemaphore
    """Bounds the followers that read older records."""
    counts: FollowingTotals
    _changes: TopicChanges
    stop: Callable[[], None] = attrs.field(default=_nothing, init=False)
    followers: dict[Follower, None] = attrs.field(factory=dict, init=False)
    _chunks: deque[FeedChunk] = attrs.field(factory=deque, init=False)
    next_number: int = attrs.field(default=0, init=False)
    """Number of the chunk that comes next."""
    _advance: Deferred[None] = attrs.field(factory=Deferred, init=False)
    has_ended: bool = attrs.field(default=False, init=False)

    @property
    def topic(self) -> str:
        return self._key[0]

    @property
    def form(self) -> MemberForm:
        return self._key[2]

    def text_of(self, positions: Positions) -> str:
        """Return positions of a follower as it may send them again."""
        return positions_text(positions, self._key[1] is None)

    def add(self, follower: Follower) -> None:
        self.followers[follower] = None
        self.counts.begun += 1

    def ends(self) -> Positions:
        """Return the ends of the partitions; that of one which another broker leads is the head."""
        led = self.services.partitions.led
        return {
            index: head if (partition := led.get((self.topic, index))) is None else partition.log.last_stable_offset
            for index, head in self.positions.items()
        }

    def remove(self, follower: Follower) -> None:
        """Forget a follower; without any, the feed ends."""
        self.followers.pop(follower, None)
        if not self.followers and not self.has_ended:
            self.services.runtime.clock.callLater(0, self._stop_if_unused)

    def _stop_if_unused(self) -> None:
        if not self.followers:
            self.stop()

    def chunks_from(self, number: int) -> Sequence[FeedChunk] | None:
        """Return the chunks from a number on; None if the feed does not have the first of them any more."""
        behind = self.next_number - number
        if behind > len(self._chunks):
            return None
        return [self._chunks[place] for place in range(len(self._chunks) - behind, len(self._chunks))]

    async def advanced(self) -> None:
        """Wait for the next chunk."""
        waiting: Deferred[None] = Deferred()
        self._advance.addCallback(lambda _: None if waiting.called else waiting.callback(None))
        await waiting

    async def run(self) -> None:
        """Read and send, as long as there are followers."""
        with suppress(CancelledError):
            await self._run()

    async def _run(self) -> None:
        clock = self.services.runtime.clock
        swept = clock.seconds()
        reason = ""
        while not reason:
            try:
                chunk = await self._grown() or await self._read()
                if chunk is not None:
                    self._keep(chunk)
                    await self._each(lambda follower: follower.send_new())
                else:
                    news = News(self.services, self.topic, self._changes)
                    await news.wait(self.positions, SILENCE_SECONDS_MAX)
                    self.services.metadata.require_topic(self.topic)
            except KafkaError as error:
                if error.code not in PASSING:
                    reason = str(error)
                else:
                    await sleep(self.services, REMOTE_SECONDS)
            if clock.seconds() - swept >= SILENCE_SECONDS_MAX:
                await self._sweep(swept)
                swept = clock.seconds()
        self.end(reason)

    def end(self, reason: str) -> None:
        """End all followers, and take no more."""
        if self.has_ended:
            return
        self.has_ended = True
        self._chunks.clear()
        for follower in tuple(self.followers):
            follower.end(reason)
        self.followers.clear()

    async def _sweep(self, since: float) -> None:
        """End followers that have lost their right, and let none be silent for long."""
        memory: dict[tuple[str, str], bool] = {}

        def check(follower: Follower) -> None:
            if not follower.is_allowed(memory):
                follower.end(f"the right to read {self.topic} has ended")
                self.remove(follower)
            else:
                follower.stay_open(since)

        await self._each(check)

    async def _each(self, action: Callable[[Follower], None]) -> None:
        """Do something with each follower, in slices."""
        async for follower in self.services.runtime.slices.over(tuple(self.followers)):
            if follower in self.followers:
                action(follower)

    async def _grown(self) -> FeedChunk | None:
        """Return a chunk without records that has partitions which were added; None without any. Raise KafkaError."""
        if self._key[1] is not None:
            return None
        added = [index for index in led_partitions(self.services, self.topic) if index not in self.positions]
        if not added:
            return None
        if len(self.positions) + len(added) > PARTITIONS_MAX:
            raise KafkaError(too_many_partitions(self.topic), ErrorCode.INVALID_PARTITIONS)
        starts: dict[int, int] = {}
        for index in added:
            try:
                starts[index] = await first_offset(self.services, self.topic, index)
            except KafkaError as error:  # its leader does not answer: the others go on
                if error.code not in PASSING:
                    raise
        return self._chunk((), {**self.positions, **starts}) if starts else None

    async def _read(self) -> FeedChunk | None:
        """Return the next records of all partitions that have a leader; None if there are none. Raise KafkaError."""
        positions: dict[int, int] | None = None
        texts: list[str] = []
        characters = 0
        for index, offset in self.positions.items():
            if characters >= CHUNK_CHARACTERS_MAX:
                break
            partition = self.services.partitions.led.get((self.topic, index))
            if partition is not None and partition.log.last_stable_offset <= offset:
                continue
            characters_max = CHUNK_CHARACTERS_MAX - characters
            selection = PieceSelection(index, offset, NUMBER_MAX, NUMBER_MAX, characters_max, self.form)
            try:
                piece = await read_piece(self.services, self.topic, selection, REGION_BYTES)
            except KafkaError as error:
                if error.code not in PASSING:
                    raise
                continue
            if piece is None or piece.next_offset <= offset:
                continue
            positions = dict(self.positions) if positions is None else positions
            positions[index] = piece.next_offset
            texts += piece.texts
            characters += sum(map(len, piece.texts))
        if positions is None:
            return None
        # the next chunk begins with the partitions that this one did not get to
        first = [*positions][1:] + [*positions][:1]
        return self._chunk(texts, {index: positions[index] for index in first})

    def _chunk(self, texts: Sequence[str], positions: Positions) -> FeedChunk:
        following = self.text_of(positions)
        return FeedChunk(self.next_number, payload_of(self.topic, texts, following), positions, following, len(texts))

    def _keep(self, chunk: FeedChunk) -> None:
        self._chunks.append(chunk)
        kept = sum(kept.size for kept in self._chunks)
        bytes_max = self._kept_bytes_max()
        while (kept > bytes_max or len(self._chunks) > KEPT_CHUNKS_MAX) and len(self._chunks) > 1:
            kept -= self._chunks.popleft().size
        self.positions = chunk.positions
        self.next_number += 1
        advance, self._advance = self._advance, Deferred()
        advance.callback(None)


def payload_of(topic: str, texts: Sequence[str], following: str) -> bytes:
    """Return the data of an event: JSON in one line. `following` is the text of the positions behind it."""
    head = f'{{"topic":"{topic}","records":['
    return f'{head}{",".join(texts)}],"next":"{following}"}}'.encode(errors="replace")


def too_many_partitions(topic: str) -> str:
    return f"{topic} has more than {PARTITIONS_MAX} partitions: name one by partition, or some by from=0:17,1:4"
