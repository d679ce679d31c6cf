"""Fetcher: one request in flight per leader, while one of its partitions has space in its buffer.

    wake --> partitions by leader --> leaders without a request in flight --> fetch --> chunks into buffers, and again

Full partitions are left out, but may need the leader's only request at any moment. So the request waits for others no
longer than a partition has been full: a fast reader never waits for idle partitions, and an unread one costs little. An
error stops only its own partition.

There may be thousands of partitions, and news of few of them: a request, and all looks between two of them, are for
those that changed. Long loops let other work run.

A position is an offset of the topic whose id was in the fetch. Once metadata shows another id, the topic was deleted
and created again (KIP-516): the position is dropped before the next fetch.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import islice
from typing import Any, Final
from uuid import UUID

import attrs
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from pylogbroker.background import run_in_background
from pylogbroker.client.cluster import Cluster
from pylogbroker.client.consumer.fetch_buffer import Chunk, FetchBuffer
from pylogbroker.client.consumer.fetch_session import SessionPartition
from pylogbroker.client.consumer.fetched_leader import FetchedLeader, PartitionInSession
from pylogbroker.client.consumer.truncation import TruncationChecks
from pylogbroker.client.errors import TopicRecreated
from pylogbroker.client.fetch_requests import NAMES_VERSION_MAX
from pylogbroker.client.metadata import TopicInfo
from pylogbroker.errors import ErrorCode, KafkaError, PylogbrokerError
from pylogbroker.interfaces import TopicPartition
from pylogbroker.rpc.errors import code_of
from pylogbroker.wire import NO_ID
from pylogbroker.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData

log = Logger()

_WAIT_MS_MIN: Final = 5
_READ_COMMITTED: Final = 1
_PLACED_AT_ONCE: Final = 500
_MANY_PARTITIONS: Final = 300
"""Partitions of a session from which answers are decoded in a thread."""
_PARTITIONS_AT_ONCE: Final = 100
"""Partitions of a request or an answer that are handled before other work runs."""

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


Unpack = Callable[[FetchBuffer, PartitionData], Chunk | None]


def _always() -> bool:
    return True


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
    may_fetch: Callable[[], bool] = _always
    """Whether there is space for what one more request may return. Call `wake` when that has changed."""
    truncation_checks: TruncationChecks = attrs.field(init=False)
    buffers: dict[TopicPartition, FetchBuffer] = attrs.field(factory=dict)
    _leaders: dict[int, FetchedLeader] = attrs.field(factory=dict)
    _placed: dict[FetchBuffer, FetchedLeader] = attrs.field(factory=dict)
    _changed: dict[FetchBuffer, None] = attrs.field(factory=dict)
    """Partitions of which something may have changed: where they are fetched, and whether."""
    _held: list[tuple[float, int, FetchBuffer]] = attrs.field(factory=list)
    """Heap of partitions after an error, by the time of their next fetch."""
    _holds: int = 0
    _seen_topics: dict[str, TopicInfo | None] = attrs.field(factory=dict)
    _by_topic: dict[str, dict[FetchBuffer, None]] = attrs.field(factory=dict)
    _woken: Any = None
    _timer: Any = None
    _looking: bool = False
    _filled: list[FetchBuffer] = attrs.field(factory=list)  # not reported to streams yet
    _closed: bool = False

    def __attrs_post_init__(self) -> None:
        self.truncation_checks = TruncationChecks(
            self._cluster, self._on_truncated, self._on_out_of_range, self._hold, self._note
        )

    # buffers

    def add(self, buffer: FetchBuffer) -> None:
        before = self.buffers.get(buffer.key)
        if before is not None and before is not buffer:
            self.leave_out(before)
        self.buffers[buffer.key] = buffer
        self._by_topic.setdefault(buffer.topic, {})[buffer] = None
        buffer.on_change = self._note
        self._note(buffer)

    def remove(self, buffer: FetchBuffer) -> None:
        self.leave_out(buffer)
        buffer.close()

    def leave_out(self, buffer: FetchBuffer) -> None:
        """Fetch a buffer no more, until it is added again."""
        if self.buffers.get(buffer.key) is not buffer:
            return
        del self.buffers[buffer.key]
        of_topic = self._by_topic[buffer.topic]
        of_topic.pop(buffer, None)
        if not of_topic:
            del self._by_topic[buffer.topic]
            self._seen_topics.pop(buffer.topic, None)
        self._changed.pop(buffer, None)
        self._displace(buffer)

    def wake(self) -> None:
        """Look soon whether there is something to fetch; metadata may have changed."""
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

    # where partitions are fetched

    def _note(self, buffer: FetchBuffer) -> None:
        """Look at a partition before the next request."""
        if self.buffers.get(buffer.key) is buffer:
            self._changed[buffer] = None
            self.wake()

    def _displace(self, buffer: FetchBuffer) -> None:
        leader = self._placed.pop(buffer, None)
        if leader is not None:
            leader.remove(buffer)

    def _note_topics(self) -> None:
        """Look at the partitions of topics whose metadata have changed."""
        topics, seen = self._cluster.topics(), self._seen_topics
        for name, buffers in self._by_topic.items():
            info = topics.get(name)
            before = seen.get(name)
            if info is not before:
                seen[name] = info
                if info != before:
                    self._changed.update(buffers)

    def _note_held(self, now: float) -> None:
        """Look at the partitions that may be fetched again after an error."""
        while self._held and self._held[0][0] <= now:
            buffer = heappop(self._held)[2]
            if self.buffers.get(buffer.key) is buffer:
                self._changed[buffer] = None

    def _place_changed(self, now: float) -> bool:
        """Place the partitions that have changed; return whether all are placed."""
        recreated: list[tuple[FetchBuffer, TopicRecreated]] = []
        for buffer in list(islice(self._changed, _PLACED_AT_ONCE)):
            del self._changed[buffer]
            if (error := self._place(buffer, now)) is not None:
                recreated.append((buffer, error))
        is_complete = not self._changed
        for buffer, error in recreated:
            self._on_recreated(buffer, error)
        return is_complete

    def _place(self, buffer: FetchBuffer, now: float) -> TopicRecreated | None:
        """Place a partition at its leader, or nowhere; return an error if its topic was created again."""
        if buffer.position < 0 or self.buffers.get(buffer.key) is not buffer:
            self._displace(buffer)
            return None
        if buffer.not_before > now:
            self._put_off(buffer)
            return None
        if (error := self.recreated(buffer)) is not None:
            self._displace(buffer)
            return error
        node = self._cluster.leader_of(buffer.topic, buffer.partition)
        if node is None:
            self._hold(buffer)
        elif self.truncation_checks.must_wait(buffer, node, self._identity(buffer)[1]):
            self._displace(buffer)
        else:
            leader = self._leaders.get(node) or self._leaders.setdefault(node, FetchedLeader(node))
            if self._placed.get(buffer) is not leader:
                self._displace(buffer)
                self._placed[buffer] = leader
            leader.place(buffer)
        return None

    def recreated(self, buffer: FetchBuffer) -> TopicRecreated | None:
        """Return the error if metadata shows that another topic than the buffer's has its name now."""
        now = self._identity(buffer)[0]
        if NO_ID in (now, buffer.topic_id) or now == buffer.topic_id:
            return None
        return TopicRecreated(buffer.topic, buffer.topic_id, now)

    def _hold(self, buffer: FetchBuffer) -> None:
        """Fetch a partition again after a pause, from the leader that is known then."""
        buffer.not_before = self._clock.seconds() + self._settings.backoff
        self._cluster.leader_is_stale(buffer.topic, buffer.partition)
        self._put_off(buffer)

    def _put_off(self, buffer: FetchBuffer) -> None:
        self._displace(buffer)
        self._holds += 1
        heappush(self._held, (buffer.not_before, self._holds, buffer))

    def _are_stale(self, leader: FetchedLeader) -> None:
        for topic, partition in leader.contents.partitions:
            self._cluster.leader_is_stale(topic, partition)
        self._changed.update(dict.fromkeys(leader.buffers))

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
        self._note_topics()
        self._note_held(now)
        if not self._place_changed(now):
            self.wake()
            return
        later: list[float] = []
        for leader in list(self._leaders.values()):
            if leader.in_flight is None and leader.ready and self.may_fetch():
                if leader.not_before > now:
                    later.append(leader.not_before)
                else:
                    self._begin(leader, now)
        if self._held:
            later.append(self._held[0][0])
        self._look_again(min(later, default=None), now)

    def _look_again(self, due: float | None, now: float) -> None:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None if due is None else self._clock.callLater(max(0.0, due - now), self._refresh)

    def _refresh(self) -> None:
        self._timer = None
        self.wake()

    def _begin(self, leader: FetchedLeader, now: float) -> None:
        wait = self._settings.max_wait_ms
        full_seconds = leader.seconds_since_full(now)
        if full_seconds is not None:
            wait = min(wait, max(_WAIT_MS_MIN, round(full_seconds * 1000)))
        fetching = self._fetch(leader, wait)
        in_flight = run_in_background(log, fetching, "an answer of broker {node} was lost", node=leader.node)
        leader.in_flight = None if in_flight.called else in_flight

    async def _request(self, leader: FetchedLeader, wait: int) -> FetchRequest:
        """Omit the rack: with it, a broker may answer with a nearer replica instead of records."""
        changes: dict[TopicPartition, SessionPartition | None] = {}
        for key, partition in leader.changes(self._identity, self._settings.partition_bytes):
            changes[key] = partition
            if len(changes) % _PARTITIONS_AT_ONCE == 0:
                await deferLater(self._clock, 0)
        settings = self._settings
        request = FetchRequest(
            max_wait_ms=0 if leader.has_changes else wait,
            min_bytes=settings.min_bytes,
            max_bytes=settings.max_bytes,
            isolation_level=_READ_COMMITTED if settings.read_committed else 0,
        )
        leader.session.fill(request, changes)
        return request

    def _identity(self, buffer: FetchBuffer) -> tuple[UUID, int]:
        info = self._cluster.topics().get(buffer.topic)
        if info is None or buffer.partition >= len(info.partitions):
            return NO_ID, -1
        return info.topic_id, info.partitions[buffer.partition].leader_epoch

    # responses

    async def _fetch(self, leader: FetchedLeader, wait: int) -> None:
        try:
            request = await self._request(leader, wait)
            timeout = self._settings.request_timeout + request.max_wait_ms / 1000
            await self._take(leader, await self._send(leader, request, timeout))
        except CancelledError:
            return
        except PylogbrokerError as error:
            self._failed(leader, error)
        finally:
            leader.in_flight = None
            self._go_on()

    def _send(self, leader: FetchedLeader, request: FetchRequest, timeout: float) -> Deferred[FetchResponse]:
        version = self._version(leader)
        if len(leader.contents.partitions) < _MANY_PARTITIONS:
            return self._cluster.send(leader.node, request, timeout=timeout, version=version)
        return self._cluster.send(leader.node, request, timeout=timeout, version=version, decode_in_thread=True)

    def _go_on(self) -> None:
        """Send the next request before passing data on: the broker works while the reader does."""
        filled, self._filled = self._filled, []
        self._look()
        for buffer in filled:
            if buffer.chunks:
                self._on_filled(buffer)

    def _version(self, leader: FetchedLeader) -> int | None:
        """Limit the version: only older ones can name topics without an id."""
        version = self._cluster.version_at(leader.node, FetchRequest)
        return version if version is None or leader.contents.have_ids else min(version, NAMES_VERSION_MAX)

    def _failed(self, leader: FetchedLeader, error: Exception) -> None:
        log.debug("fetching from broker {node} failed: {error}", node=leader.node, error=error)
        leader.not_before = self._clock.seconds() + self._settings.backoff
        self._are_stale(leader)
        leader.restart(lost=True)

    async def _take(self, leader: FetchedLeader, answer: FetchResponse) -> None:
        code = code_of(answer.error_code)
        if code in _SESSION_ERRORS:
            is_lost = _SESSION_ERRORS[code]
            if not is_lost:
                leader.not_before = self._clock.seconds() + self._settings.backoff
                self._are_stale(leader)
            leader.restart(lost=is_lost)
            return
        if code:
            raise KafkaError(code=code)
        leader.session.answered(answer.session_id)
        count = 0
        for topic in answer.responses:
            name = topic.topic or leader.contents.name_of(topic.topic_id)
            for partition in topic.partitions:
                count += 1
                if count % _PARTITIONS_AT_ONCE == 0:
                    await deferLater(self._clock, 0)
                fetched = leader.contents.partitions.get((name, partition.partition_index))
                if fetched is not None and not fetched.buffer.closed and fetched.buffer.round == fetched.round:
                    self._take_partition(fetched, partition)

    def _take_partition(self, fetched: PartitionInSession, data: PartitionData) -> None:
        buffer, code = fetched.buffer, code_of(data.error_code)
        if not code:
            if buffer.topic_id != fetched.topic_id:
                buffer.topic_id = fetched.topic_id
                self._changed[buffer] = None
            self._fill(buffer, data, fetched.leader_epoch)
        elif code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._on_out_of_range(buffer)
        elif code.retriable and code is not ErrorCode.CORRUPT_MESSAGE:
            self._hold(buffer)
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
            self._changed[buffer] = None  # the look after this answer places it
            if was_empty:
                self._filled.append(buffer)

    def _stop(self, buffer: FetchBuffer, error: Exception) -> None:
        self.leave_out(buffer)
        self._on_error(buffer, error)
