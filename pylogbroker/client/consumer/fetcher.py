"""Fetcher: one request in flight per leader, while one of its partitions has space in its buffer.

    wake --> partitions by leader --> leaders without a request in flight --> fetch --> chunks into buffers, and again

Full partitions are left out, but may need the leader's only request at any moment. So the request waits for others no
longer than a partition has been full: a fast reader never waits for idle partitions, and an unread one costs little. An
error stops only its own partition.

A position is an offset of the topic whose id was in the fetch. Once metadata shows another id, the topic was deleted
and created again (KIP-516): the position is dropped before the next fetch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final
from uuid import UUID

import attrs
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from pylogbroker.background import run_in_background
from pylogbroker.client.cluster import Cluster
from pylogbroker.client.consumer.fetch_buffer import Chunk, FetchBuffer
from pylogbroker.client.consumer.fetch_session import ClientFetchSession, SessionPartition
from pylogbroker.client.consumer.truncation import TruncationChecks
from pylogbroker.client.errors import TopicRecreated
from pylogbroker.client.fetch_requests import NAMES_VERSION_MAX
from pylogbroker.errors import ErrorCode, KafkaError, PylogbrokerError
from pylogbroker.interfaces import TopicPartition
from pylogbroker.rpc.errors import code_of
from pylogbroker.wire import NO_ID
from pylogbroker.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData

log = Logger()

_WAIT_MS_MIN: Final = 5
_READ_COMMITTED: Final = 1

_SESSION_ERRORS: Final = {
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND: True,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH: False,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR: False,
    ErrorCode.UNKNOWN_TOPIC_ID: False,
    ErrorCode.INCONSISTENT_TOPIC_ID: False,
}
"""Session errors; whether the broker has lost the session."""


@attrs.frozen
class FetchSettings:
    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 52_428_800
    partition_bytes: int = 1_048_576
    read_committed: bool = False
    backoff: float = 0.1
    request_timeout: float = 30.0


@attrs.define(eq=False, repr=False)
class LeaderState:
    node: int
    session: ClientFetchSession = attrs.field(factory=ClientFetchSession)
    in_flight: Deferred[None] | None = None
    not_before: float = 0.0


@attrs.define(eq=False, repr=False)
class FetchContents:
    """Partitions of a request, including those that the session implies."""

    buffers: dict[TopicPartition, tuple[FetchBuffer, int, int, UUID]] = attrs.field(
        factory=dict
    )  # buffer, round, leader epoch, topic id
    names: dict[UUID, str] = attrs.field(factory=dict)
    have_ids: bool = True

    def add(self, buffer: FetchBuffer, topic_id: UUID, epoch: int) -> None:
        self.buffers[buffer.key] = buffer, buffer.round, epoch, topic_id
        self.names[topic_id] = buffer.topic
        self.have_ids = self.have_ids and topic_id != NO_ID


Unpack = Callable[[FetchBuffer, PartitionData], Chunk | None]


@attrs.define(eq=False, repr=False)
class Fetcher:
    _cluster: Cluster
    _clock: IReactorTime
    _settings: FetchSettings
    _unpack: Unpack
    _on_filled: Callable[[FetchBuffer], None]
    _on_out_of_range: Callable[[FetchBuffer], None]
    _on_error: Callable[[FetchBuffer, Exception], None]
    _on_truncated: Callable[[FetchBuffer, int], None]
    _on_recreated: Callable[[FetchBuffer, TopicRecreated], None]
    truncation_checks: TruncationChecks = attrs.field(init=False)
    buffers: dict[TopicPartition, FetchBuffer] = attrs.field(factory=dict)
    _leaders: dict[int, LeaderState] = attrs.field(factory=dict)
    _woken: Any = None
    _timer: Any = None
    _looking: bool = False
    _filled: list[FetchBuffer] = attrs.field(factory=list)  # not reported to streams yet
    _closed: bool = False

    def __attrs_post_init__(self) -> None:
        self.truncation_checks = TruncationChecks(
            self._cluster, self._on_truncated, self._on_out_of_range, self._hold_now, self.wake
        )

    # buffers

    def add(self, buffer: FetchBuffer) -> None:
        self.buffers[buffer.key] = buffer
        buffer.on_space = self.wake
        self.wake()

    def remove(self, buffer: FetchBuffer) -> None:
        self.buffers.pop(buffer.key, None)
        buffer.close()

    def wake(self) -> None:
        if self._woken is None and not self._closed:
            self._woken = self._clock.callLater(0, self._look_soon)

    def close(self) -> None:
        self._closed = True
        for call in (self._woken, self._timer):
            if call is not None and call.active():
                call.cancel()
        for leader in self._leaders.values():
            if leader.in_flight is not None:
                leader.in_flight.cancel()
        self.truncation_checks.close()

    # requests

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
        for node, buffers in by_leader.items():
            leader = self._leaders.get(node) or self._leaders.setdefault(node, LeaderState(node))
            if leader.in_flight is None and any(not buffer.full for buffer in buffers):
                if leader.not_before > now:
                    later.append(leader.not_before)
                else:
                    self._begin(leader, buffers, now)
        self._look_again(min(later, default=None), now)

    def recreated(self, buffer: FetchBuffer) -> TopicRecreated | None:
        """Return the error if metadata shows that another topic than the buffer's has its name now."""
        now = self._identity(buffer)[0]
        if NO_ID in (now, buffer.topic_id) or now == buffer.topic_id:
            return None
        return TopicRecreated(buffer.topic, buffer.topic_id, now)

    def _by_leader(self, now: float) -> tuple[dict[int, list[FetchBuffer]], list[float]]:
        by_leader: dict[int, list[FetchBuffer]] = {}
        later: list[float] = []
        recreated: list[tuple[FetchBuffer, TopicRecreated]] = []
        for buffer in self.buffers.values():
            if buffer.position < 0:
                continue
            if buffer.not_before > now:
                later.append(buffer.not_before)
                continue
            if (error := self.recreated(buffer)) is not None:
                recreated.append((buffer, error))
                continue
            node = self._cluster.leader_of(buffer.topic, buffer.partition)
            if node is None:
                self._hold(buffer, now)
                later.append(buffer.not_before)
            elif not self.truncation_checks.must_wait(buffer, node, self._identity(buffer)[1]):
                by_leader.setdefault(node, []).append(buffer)
        for buffer, error in recreated:
            self._on_recreated(buffer, error)
        return by_leader, later

    def _look_again(self, due: float | None, now: float) -> None:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None if due is None else self._clock.callLater(max(0.0, due - now), self._refresh)

    def _refresh(self) -> None:
        self._timer = None
        self.wake()

    def _begin(self, leader: LeaderState, buffers: Iterable[FetchBuffer], now: float) -> None:
        contents = FetchContents()
        partitions: dict[TopicPartition, SessionPartition] = {}
        wait = self._settings.max_wait_ms
        for buffer in buffers:
            if buffer.full:
                buffer.full_since = now if buffer.full_since is None else buffer.full_since
                wait = min(wait, max(_WAIT_MS_MIN, round((now - buffer.full_since) * 1000)))
            else:
                topic_id, epoch = self._identity(buffer)
                contents.add(buffer, topic_id, epoch)
                partitions[buffer.key] = SessionPartition(
                    buffer.position, self._settings.partition_bytes, topic_id, epoch
                )
        request = self._request(wait)
        leader.session.fill(request, partitions)
        fetching = self._fetch(leader, request, contents)
        in_flight = run_in_background(log, fetching, "an answer of broker {node} was lost", node=leader.node)
        leader.in_flight = None if in_flight.called else in_flight

    def _request(self, wait: int) -> FetchRequest:
        """Omit the rack: with it, a broker may answer with a nearer replica instead of records."""
        settings = self._settings
        return FetchRequest(
            max_wait_ms=wait,
            min_bytes=settings.min_bytes,
            max_bytes=settings.max_bytes,
            isolation_level=_READ_COMMITTED if settings.read_committed else 0,
        )

    def _identity(self, buffer: FetchBuffer) -> tuple[UUID, int]:
        info = self._cluster.topics().get(buffer.topic)
        if info is None or buffer.partition >= len(info.partitions):
            return NO_ID, -1
        return info.topic_id, info.partitions[buffer.partition].leader_epoch

    # responses

    async def _fetch(self, leader: LeaderState, request: FetchRequest, contents: FetchContents) -> None:
        timeout = self._settings.request_timeout + request.max_wait_ms / 1000
        try:
            answer = await self._cluster.send(
                leader.node, request, timeout=timeout, version=self._version(leader, contents)
            )
            self._take(leader, contents, answer)
        except CancelledError:
            return
        except PylogbrokerError as error:
            self._failed(leader, contents, error)
        finally:
            leader.in_flight = None
            self._go_on()

    def _go_on(self) -> None:
        """Send the next request before passing data on: the broker works while the reader does."""
        filled, self._filled = self._filled, []
        self._look()
        for buffer in filled:
            if buffer.chunks:
                self._on_filled(buffer)

    def _version(self, leader: LeaderState, contents: FetchContents) -> int | None:
        """Limit the version: only older ones can name topics without an id."""
        version = self._cluster.version_at(leader.node, FetchRequest)
        return version if version is None or contents.have_ids else min(version, NAMES_VERSION_MAX)

    def _failed(self, leader: LeaderState, contents: FetchContents, error: Exception) -> None:
        log.debug("fetching from broker {node} failed: {error}", node=leader.node, error=error)
        leader.session.broken(lost=True)
        leader.not_before = self._clock.seconds() + self._settings.backoff
        self._are_stale(contents)

    def _take(self, leader: LeaderState, contents: FetchContents, answer: FetchResponse) -> None:
        code = code_of(answer.error_code)
        if code in _SESSION_ERRORS:
            leader.session.broken(lost=_SESSION_ERRORS[code])
            if not _SESSION_ERRORS[code]:
                leader.not_before = self._clock.seconds() + self._settings.backoff
                self._are_stale(contents)
            return
        if code:
            raise KafkaError(code=code)
        leader.session.answered(answer.session_id)
        for topic in answer.responses:
            name = topic.topic or contents.names.get(topic.topic_id, "")
            for partition in topic.partitions:
                buffer, begun, epoch, topic_id = contents.buffers.get(
                    (name, partition.partition_index), (None, 0, -1, NO_ID)
                )
                if buffer is not None and not buffer.closed and buffer.round == begun:
                    self._take_partition(buffer, partition, epoch, topic_id)

    def _take_partition(self, buffer: FetchBuffer, data: PartitionData, epoch: int, topic_id: UUID) -> None:
        code = code_of(data.error_code)
        if not code:
            buffer.topic_id = topic_id
            self._fill(buffer, data, epoch)
        elif code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._on_out_of_range(buffer)
        elif code.retriable and code is not ErrorCode.CORRUPT_MESSAGE:
            self._hold(buffer, self._clock.seconds())
        else:
            self._stop(buffer, KafkaError(f"{buffer.topic}-{buffer.partition}: {code.meaning}", code))

    def _fill(self, buffer: FetchBuffer, data: PartitionData, epoch: int) -> None:
        buffer.high_watermark, buffer.last_stable_offset = data.high_watermark, data.last_stable_offset
        try:
            chunk = self._unpack(buffer, data)
        except PylogbrokerError as error:
            self._stop(buffer, error)
            return
        if chunk is not None:
            was_empty = not buffer.chunks
            buffer.add(chunk)
            buffer.checked_epoch = epoch
            if was_empty:
                self._filled.append(buffer)

    def _stop(self, buffer: FetchBuffer, error: Exception) -> None:
        self.buffers.pop(buffer.key, None)
        self._on_error(buffer, error)

    def _hold(self, buffer: FetchBuffer, now: float) -> None:
        buffer.not_before = now + self._settings.backoff
        self._cluster.leader_is_stale(buffer.topic, buffer.partition)

    def _hold_now(self, buffer: FetchBuffer) -> None:
        self._hold(buffer, self._clock.seconds())

    def _are_stale(self, contents: FetchContents) -> None:
        for topic, partition in contents.buffers:
            self._cluster.leader_is_stale(topic, partition)
