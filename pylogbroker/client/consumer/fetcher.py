"""Fetching: one request under way to each leader, as long as it leads anything that a stream has room for.

    wake --> partitions by leader --> leaders without a request under way --> fetch --> chunks into feeds, and again

A partition whose stream is full is left out. While it is, the others of its leader are not waited for as long as
otherwise, since it may want more at any moment and there is but one request: no longer than it has been full for. So
who reads at speed never waits for partitions where nothing happens, and who does not read at all costs next to nothing.

What goes wrong with one partition holds up that one: a leader that has moved is looked for, an offset out of range is
handed to `on_out_of_range`, a log that was cut below it to `on_truncated`, what reading cannot get over to `on_error`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final
from uuid import UUID

import attrs
from twisted.internet.defer import CancelledError, Deferred, ensureDeferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from pylogbroker.client.cluster import Cluster
from pylogbroker.client.consumer.codes import code_of
from pylogbroker.client.consumer.feeds import Chunk, Feed
from pylogbroker.client.consumer.sessions import FetchSession, Wanted
from pylogbroker.client.consumer.truncation import Doubts
from pylogbroker.errors import ErrorCode, KafkaError, PylogbrokerError
from pylogbroker.interfaces import TopicPartition
from pylogbroker.wire import NO_ID
from pylogbroker.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData

log = Logger()

SHORTEST_WAIT_MS: Final = 5
_NAMES_ONLY: Final = 12  # the last version without topic ids
_READ_COMMITTED: Final = 1

_SESSION_ERRORS: Final = {
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND: True,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH: False,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR: False,
    ErrorCode.UNKNOWN_TOPIC_ID: False,
    ErrorCode.INCONSISTENT_TOPIC_ID: False,
}
"""What a session can go wrong with, and whether the broker has forgotten it then."""


@attrs.frozen
class FetchSettings:
    """How much to fetch, and how long to wait for it."""

    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 52_428_800
    partition_bytes: int = 1_048_576
    read_committed: bool = False
    backoff: float = 0.1
    request_timeout: float = 30.0


@attrs.define(eq=False)
class Leader:
    """A broker that is fetched from."""

    node: int
    session: FetchSession = attrs.field(factory=FetchSession)
    under_way: Deferred[None] | None = None
    not_before: float = 0.0


@attrs.define(eq=False)
class Asked:
    """What one request asks for, also of what the session knows without being told again."""

    feeds: dict[TopicPartition, tuple[Feed, int, int]] = attrs.field(factory=dict)  # with round and leader epoch
    names: dict[UUID, str] = attrs.field(factory=dict)
    have_ids: bool = True

    def add(self, feed: Feed, topic_id: UUID, epoch: int) -> None:
        """Ask for this one too."""
        self.feeds[feed.key] = feed, feed.round, epoch
        self.names[topic_id] = feed.topic
        self.have_ids = self.have_ids and topic_id != NO_ID


Unpack = Callable[[Feed, PartitionData], Chunk | None]


@attrs.define(eq=False)
class Fetcher:
    """Keeps feeds filled."""

    _cluster: Cluster
    _clock: IReactorTime
    _settings: FetchSettings
    _unpack: Unpack
    _fed: Callable[[Feed], None]
    _on_out_of_range: Callable[[Feed], None]
    _on_error: Callable[[Feed, Exception], None]
    _on_truncated: Callable[[Feed, int], None]
    doubts: Doubts = attrs.field(init=False)
    feeds: dict[TopicPartition, Feed] = attrs.field(factory=dict)
    _leaders: dict[int, Leader] = attrs.field(factory=dict)
    _woken: Any = None
    _timer: Any = None
    _looking: bool = False
    _filled: list[Feed] = attrs.field(factory=list)  # since the last answer, which their streams do not know yet
    _closed: bool = False

    def __attrs_post_init__(self) -> None:
        self.doubts = Doubts(self._cluster, self._on_truncated, self._on_out_of_range, self._hold_now, self.wake)

    # -- what is fetched -------------------------------------------------------------------------------------------

    def add(self, feed: Feed) -> None:
        """Fetch it too."""
        self.feeds[feed.key] = feed
        feed.on_room = self.wake
        self.wake()

    def remove(self, feed: Feed) -> None:
        """Fetch it no more; what comes of it is not looked at."""
        self.feeds.pop(feed.key, None)
        feed.close()

    def wake(self) -> None:
        """Something may have changed: look, soon, whether there is anything to fetch."""
        if self._woken is None and not self._closed:
            self._woken = self._clock.callLater(0, self._look_soon)

    def close(self) -> None:
        """Fetch nothing any more."""
        self._closed = True
        for call in (self._woken, self._timer):
            if call is not None and call.active():
                call.cancel()
        for leader in self._leaders.values():
            if leader.under_way is not None:
                leader.under_way.cancel()
        self.doubts.close()

    # -- what to ask -----------------------------------------------------------------------------------------------

    def _look_soon(self) -> None:
        self._woken = None
        self._look()

    def _look(self) -> None:
        if self._closed:
            return
        if self._looking:  # what was asked for has failed at once
            self.wake()
            return
        self._looking = True
        try:
            self._ask()
        finally:
            self._looking = False

    def _ask(self) -> None:
        now = self._clock.seconds()
        by_leader, later = self._by_leader(now)
        for node, feeds in by_leader.items():
            leader = self._leaders.get(node) or self._leaders.setdefault(node, Leader(node))
            if leader.under_way is None and any(not feed.full for feed in feeds):
                if leader.not_before > now:
                    later.append(leader.not_before)
                else:
                    self._begin(leader, feeds, now)
        self._look_again(min(later, default=None), now)

    def _by_leader(self, now: float) -> tuple[dict[int, list[Feed]], list[float]]:
        by_leader: dict[int, list[Feed]] = {}
        later: list[float] = []
        for feed in self.feeds.values():
            if feed.position < 0:
                continue
            if feed.not_before > now:
                later.append(feed.not_before)
                continue
            node = self._cluster.leader_of(feed.topic, feed.partition)
            if node is None:
                self._hold(feed, now)
                later.append(feed.not_before)
            elif not self.doubts.about(feed, node, self._identity(feed)[1]):
                by_leader.setdefault(node, []).append(feed)
        return by_leader, later

    def _look_again(self, due: float | None, now: float) -> None:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None if due is None else self._clock.callLater(max(0.0, due - now), self._look_now)

    def _look_now(self) -> None:
        self._timer = None
        self.wake()

    def _begin(self, leader: Leader, feeds: Iterable[Feed], now: float) -> None:
        asked = Asked()
        wanted: dict[TopicPartition, Wanted] = {}
        wait = self._settings.max_wait_ms
        for feed in feeds:
            if feed.full:
                feed.full_since = now if feed.full_since is None else feed.full_since
                wait = min(wait, max(SHORTEST_WAIT_MS, round((now - feed.full_since) * 1000)))
            else:
                topic_id, epoch = self._identity(feed)
                asked.add(feed, topic_id, epoch)
                wanted[feed.key] = Wanted(feed.position, self._settings.partition_bytes, topic_id, epoch)
        request = self._request(wait)
        leader.session.fill(request, wanted)
        under_way = ensureDeferred(self._fetch(leader, request, asked))
        leader.under_way = None if under_way.called else under_way

    def _request(self, wait: int) -> FetchRequest:
        """The rack is not told: it would be answered with the name of a nearer replica instead of records."""
        settings = self._settings
        return FetchRequest(
            max_wait_ms=wait,
            min_bytes=settings.min_bytes,
            max_bytes=settings.max_bytes,
            isolation_level=_READ_COMMITTED if settings.read_committed else 0,
        )

    def _identity(self, feed: Feed) -> tuple[UUID, int]:
        """The topic's id and the leader's epoch, as far as they are known."""
        info = self._cluster.topics().get(feed.topic)
        if info is None or feed.partition >= len(info.partitions):
            return NO_ID, -1
        return info.topic_id, info.partitions[feed.partition].leader_epoch

    # -- what comes ------------------------------------------------------------------------------------------------

    async def _fetch(self, leader: Leader, request: FetchRequest, asked: Asked) -> None:
        timeout = self._settings.request_timeout + request.max_wait_ms / 1000
        try:
            answer = await self._cluster.send(
                leader.node, request, timeout=timeout, version=self._version(leader, asked)
            )
            self._take(leader, asked, answer)
        except CancelledError:
            return
        except PylogbrokerError as error:
            self._failed(leader, asked, error)
        finally:
            leader.under_way = None
            self._go_on()

    def _go_on(self) -> None:
        """Ask for more, and only then give what has come: so the broker is at work while the reader is."""
        filled, self._filled = self._filled, []
        self._look()
        for feed in filled:
            if feed.chunks:
                self._fed(feed)

    def _version(self, leader: Leader, asked: Asked) -> int | None:
        """Topics without an id, of brokers that have none, can be named in older versions only."""
        known = self._cluster.version_at(leader.node, FetchRequest)
        return known if known is None or asked.have_ids else min(known, _NAMES_ONLY)

    def _failed(self, leader: Leader, asked: Asked, error: Exception) -> None:
        log.debug("fetching from broker {node} failed: {error}", node=leader.node, error=error)
        leader.session.broken(lost=True)
        leader.not_before = self._clock.seconds() + self._settings.backoff
        self._are_stale(asked)

    def _take(self, leader: Leader, asked: Asked, answer: FetchResponse) -> None:
        code = code_of(answer.error_code)
        if code in _SESSION_ERRORS:
            leader.session.broken(lost=_SESSION_ERRORS[code])
            if not _SESSION_ERRORS[code]:
                leader.not_before = self._clock.seconds() + self._settings.backoff
                self._are_stale(asked)
            return
        if code:
            raise KafkaError(code=code)
        leader.session.answered(answer.session_id)
        for topic in answer.responses:
            name = topic.topic or asked.names.get(topic.topic_id, "")
            for each in topic.partitions:
                feed, begun, epoch = asked.feeds.get((name, each.partition_index), (None, 0, -1))
                if feed is not None and not feed.closed and feed.round == begun:
                    self._take_partition(feed, each, epoch)

    def _take_partition(self, feed: Feed, data: PartitionData, epoch: int) -> None:
        code = code_of(data.error_code)
        if not code:
            self._fill(feed, data, epoch)
        elif code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._on_out_of_range(feed)
        elif code.retriable and code is not ErrorCode.CORRUPT_MESSAGE:
            self._hold(feed, self._clock.seconds())
        else:
            self._stop(feed, KafkaError(f"{feed.topic}-{feed.partition}: {code.meaning}", code))

    def _fill(self, feed: Feed, data: PartitionData, epoch: int) -> None:
        feed.high_watermark, feed.last_stable_offset = data.high_watermark, data.last_stable_offset
        try:
            chunk = self._unpack(feed, data)
        except PylogbrokerError as error:
            self._stop(feed, error)
            return
        if chunk is not None:
            was_empty = not feed.chunks
            feed.add(chunk)
            feed.sure_until = epoch
            if was_empty:
                self._filled.append(feed)

    def _stop(self, feed: Feed, error: Exception) -> None:
        self.feeds.pop(feed.key, None)
        self._on_error(feed, error)

    def _hold(self, feed: Feed, now: float) -> None:
        """Let its leader be looked for, and fetch it again a little later."""
        feed.not_before = now + self._settings.backoff
        self._cluster.leader_is_stale(feed.topic, feed.partition)

    def _hold_now(self, feed: Feed) -> None:
        self._hold(feed, self._clock.seconds())

    def _are_stale(self, asked: Asked) -> None:
        for topic, partition in asked.feeds:
            self._cluster.leader_is_stale(topic, partition)
