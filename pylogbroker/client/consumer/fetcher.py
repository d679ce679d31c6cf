"""Fetcher: one request in flight per leader, while one of its partitions has space in its feed.

    wake --> partitions by leader --> leaders without a request in flight --> fetch --> chunks into feeds, and again

Full partitions are left out. Each leader has only one request, and a full partition may need it at any moment. So the
request then waits for the others no longer than that partition has been full. Thus a fast reader never waits for idle
partitions, and a partition that is not read costs next to nothing.

An error of one partition stops only that partition. The cluster looks for a leader that moved. `on_out_of_range`
handles an offset out of range, `on_truncated` a log truncated below the position, `on_error` a permanent error.
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
_NAMES_ONLY: Final = 12  # last version without topic ids
_READ_COMMITTED: Final = 1

_SESSION_ERRORS: Final = {
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND: True,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH: False,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR: False,
    ErrorCode.UNKNOWN_TOPIC_ID: False,
    ErrorCode.INCONSISTENT_TOPIC_ID: False,
}
"""Session errors, and whether the broker has lost the session."""


@attrs.frozen
class FetchSettings:
    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 52_428_800
    partition_bytes: int = 1_048_576
    read_committed: bool = False
    backoff: float = 0.1
    request_timeout: float = 30.0


@attrs.define(eq=False)
class Leader:
    node: int
    session: FetchSession = attrs.field(factory=FetchSession)
    under_way: Deferred[None] | None = None
    not_before: float = 0.0


@attrs.define(eq=False)
class Asked:
    """Contents of one fetch request, including partitions that the session implies."""

    feeds: dict[TopicPartition, tuple[Feed, int, int]] = attrs.field(factory=dict)  # feed, round, leader epoch
    names: dict[UUID, str] = attrs.field(factory=dict)
    have_ids: bool = True

    def add(self, feed: Feed, topic_id: UUID, epoch: int) -> None:
        self.feeds[feed.key] = feed, feed.round, epoch
        self.names[topic_id] = feed.topic
        self.have_ids = self.have_ids and topic_id != NO_ID


Unpack = Callable[[Feed, PartitionData], Chunk | None]


@attrs.define(eq=False)
class Fetcher:
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
    _filled: list[Feed] = attrs.field(factory=list)  # filled by the last response, not yet reported to streams
    _closed: bool = False

    def __attrs_post_init__(self) -> None:
        self.doubts = Doubts(self._cluster, self._on_truncated, self._on_out_of_range, self._hold_now, self.wake)

    # -- feeds -----------------------------------------------------------------------------------------------------

    def add(self, feed: Feed) -> None:
        self.feeds[feed.key] = feed
        feed.on_room = self.wake
        self.wake()

    def remove(self, feed: Feed) -> None:
        self.feeds.pop(feed.key, None)
        feed.close()

    def wake(self) -> None:
        """Look for something to fetch in the next reactor iteration."""
        if self._woken is None and not self._closed:
            self._woken = self._clock.callLater(0, self._look_soon)

    def close(self) -> None:
        self._closed = True
        for call in (self._woken, self._timer):
            if call is not None and call.active():
                call.cancel()
        for leader in self._leaders.values():
            if leader.under_way is not None:
                leader.under_way.cancel()
        self.doubts.close()

    # -- requests --------------------------------------------------------------------------------------------------

    def _look_soon(self) -> None:
        self._woken = None
        self._look()

    def _look(self) -> None:
        if self._closed:
            return
        if self._looking:  # a request has failed at once
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
        """Omit the rack: with it, a broker may name a nearer replica instead of sending records."""
        settings = self._settings
        return FetchRequest(
            max_wait_ms=wait,
            min_bytes=settings.min_bytes,
            max_bytes=settings.max_bytes,
            isolation_level=_READ_COMMITTED if settings.read_committed else 0,
        )

    def _identity(self, feed: Feed) -> tuple[UUID, int]:
        info = self._cluster.topics().get(feed.topic)
        if info is None or feed.partition >= len(info.partitions):
            return NO_ID, -1
        return info.topic_id, info.partitions[feed.partition].leader_epoch

    # -- responses -------------------------------------------------------------------------------------------------

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
        """Send the next request before passing the data on: the broker works while the reader does."""
        filled, self._filled = self._filled, []
        self._look()
        for feed in filled:
            if feed.chunks:
                self._fed(feed)

    def _version(self, leader: Leader, asked: Asked) -> int | None:
        """Return the version to use: only older ones can name topics without an id."""
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
        feed.not_before = now + self._settings.backoff
        self._cluster.leader_is_stale(feed.topic, feed.partition)

    def _hold_now(self, feed: Feed) -> None:
        self._hold(feed, self._clock.seconds())

    def _are_stale(self, asked: Asked) -> None:
        for topic, partition in asked.feeds:
            self._cluster.leader_is_stale(topic, partition)
