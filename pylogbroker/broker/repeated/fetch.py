"""Fetch requests of consumers for one partition, without a session, that repeat an earlier one at another offset.

    request   api_key:2 version:2 | correlation_id:4 | prefix | fetch_offset:8 | rest
                                                       as learned                as learned
    answer    size:4 correlation_id:4 | as learned | high_watermark:8 last_stable_offset:8 log_start_offset:8
              | as learned | size of the records | records | empty tagged fields

The size of the records is an int32 before version 12, and a varint of size + 1 from there on.

These requests take the usual path:

    what is unusual                                               noticed
    ------------------------------------------------------------  --------------------------------------------------
    sessions, followers, several partitions, read_committed,      nothing is learned
    errors, a partition that is followed here, a preferred
    replica, versions before 5, logs addressed by bytes
    another leader or leader epoch, topics that may not be read   before each read
    an offset outside of the log, or fewer bytes than             by the read
    `min_bytes` in it
    records that are not in the page cache, or have to be         by the read
    converted; emptied batches

At the end of a log, the form is the delayed operation, and waits by itself:

    event                                   what follows
    --------------------------------------  -----------------------------------------------------------------
    `min_bytes` are there                   with the deferred actions: the answer; by the usual path, with the
                                            rest of the time, if something is unusual by then
    the time is over, the broker stops, or  the usual path answers, without a further wait
    the partition is closed
    the connection is lost                  nothing
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from math import ceil
from struct import Struct
from typing import Any, ClassVar, Final, Protocol

import attrs
from twisted.internet.defer import maybeDeferred

from pylogbroker.broker.fetch.conversion import FIRST_WITH_V2_ALONE
from pylogbroker.broker.fetch.operation import fetch
from pylogbroker.broker.fetch.readahead import READ_INLINE_BYTES_MAX, is_cached, magic_if_cached, read_if_cached
from pylogbroker.broker.fetch.session import CONSUMER, RequestedPartition, fetcher_of
from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.broker.partitions.purgatory import Mark
from pylogbroker.broker.repeated import CORRELATION_ID_AT, NOTHING, PREFIX_AT, AnswerPlace, TakePlace
from pylogbroker.broker.repeated.frames import prefix_of
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.services import HasFetches, HasMetadata, HasNode, HasPartitions, HasQuotas, HasRuntime
from pylogbroker.errors import KafkaError
from pylogbroker.records import HEADER_V2, MAGIC_AT, Buffer
from pylogbroker.storage import Log, NotCached
from pylogbroker.wire import Chunk, request_codec, response_codec
from pylogbroker.wire.messages.fetch import FetchRequest, FetchResponse
from pylogbroker.wire.primitives import compact_size

FIRST_WITH_LOG_START: Final = 5
_FIRST_WITH_ZSTD: Final = 10
FIRST_WITH_IDS: Final = 13
NO_SESSION: Final = (0, -1)
OWN_CHUNK_BYTES_MIN: Final = 4096
OFFSET: Final = 0x7E818283_84858687
"""Stands for offsets in what is learned; no text or number there has such bytes."""

_unpack_int = Struct(">i").unpack_from
_unpack_offset = Struct(">q").unpack_from
_pack_size = Struct(">i").pack


class _Services(HasRuntime, HasMetadata, HasPartitions, HasQuotas, HasNode, HasFetches, Protocol):
    """Services that a repeated fetch uses."""


@attrs.define(eq=False, repr=False)
class _Waiting:
    """Request that waits for `missing` more bytes behind its offset."""

    place: AnswerPlace
    offset: int
    missing: int


@attrs.define(eq=False, repr=False)
class RepeatedFetch:
    """Form of a request for one partition, and of its answer."""

    prefix: bytes
    """Constant part of a frame between the correlation id and the offset."""
    _rest: bytes
    _request: FetchRequest
    _partition: Partition
    _leader_epoch: int
    _services: _Services
    context: RequestContext
    _head: Struct
    _before: bytes
    _between: bytes
    _tail: bytes
    _waiting: _Waiting | None = attrs.field(default=None, init=False)
    takes_places: ClassVar[bool] = False
    joinable: ClassVar[None] = None

    @classmethod
    def learn(
        cls,
        services: _Services,
        context: RequestContext,
        frame: memoryview,
        body_at: int,
        request: FetchRequest,
        response: FetchResponse,
    ) -> RepeatedFetch | None:
        """Return the form of a request that was answered; None if it has none that is known.

        The body of the request begins at `body_at` in its frame.
        """
        version = context.api_version
        if (
            (request.session_id, request.session_epoch) != NO_SESSION
            or fetcher_of(request) != CONSUMER
            or request.isolation_level
            or len(request.topics) != 1
            or len(request.topics[0].partitions) != 1
            or version < FIRST_WITH_LOG_START
            or not response.responses
            or response.throttle_time_ms
            or response.node_endpoints
            or (request.rack_id and services.fetches.selects_by_rack)
        ):
            return None
        topic = request.topics[0]
        fetched = topic.partitions[0]
        [topic_answer] = response.responses
        [answer] = topic_answer.partitions
        if answer.error_code or answer.diverging_epoch.end_offset >= 0 or fetched.last_fetched_epoch >= 0:
            return None
        try:
            partition = services.partitions.find(
                topic.topic_id if version >= FIRST_WITH_IDS else topic.topic, fetched.partition
            )
        except KafkaError:
            return None
        if partition.log.byte_addressed or partition.followed is not None:
            return None
        offset, fetched.fetch_offset = fetched.fetch_offset, OFFSET
        body = request_codec(FetchRequest.api_key, version).encode(request)
        fetched.fetch_offset = offset
        before, _, rest = body.partition(OFFSET.to_bytes(8))
        prefix = prefix_of(frame, body_at, before, rest)
        if prefix is None:
            return None
        values = answer.high_watermark, answer.last_stable_offset, answer.log_start_offset, answer.records
        answer.high_watermark = answer.last_stable_offset = answer.log_start_offset = OFFSET
        answer.records = b""
        chunks: list[Any] = response_codec(FetchResponse.api_key, version).frame(0, response)
        answer.high_watermark, answer.last_stable_offset, answer.log_start_offset, answer.records = values
        answer_before, _, answer_rest = b"".join(chunks)[8:].partition(OFFSET.to_bytes(8) * 3)
        is_flexible = FetchResponse.versions.is_flexible(version)
        between, tail = (answer_rest[:-4], answer_rest[-3:]) if is_flexible else (answer_rest[:-4], b"")
        return cls(
            prefix, rest, request, partition, partition.leader_epoch, services, context,
            Struct(f">ii{len(answer_before)}sqqq{len(between)}s"), answer_before, between, tail,
        )  # fmt: skip

    @property
    def is_over(self) -> bool:
        """True if the partition is not led here in the same leader epoch any more, or was created again."""
        partition = self._partition
        return (
            self._services.partitions.led.get((partition.topic, partition.index)) is not partition
            or partition.leader_epoch != self._leader_epoch
        )

    def answer_run(self, frames: Sequence[memoryview], take_place: TakePlace) -> tuple[int, list[Chunk]]:
        """Read for the first request of `frames`, if it has this form; return 1 and the answer, unless it waits."""
        frame = frames[0]
        offset_at = PREFIX_AT + len(self.prefix)
        if frame[offset_at + 8 :] != self._rest or not self._may_read():
            return NOTHING
        [correlation_id] = _unpack_int(frame, CORRELATION_ID_AT)
        [offset] = _unpack_offset(frame, offset_at)
        if offset == self._partition.log.high_watermark and self._may_wait():
            self._partition.traffic.fetches += 1
            self._wait(offset, take_place(correlation_id, len(frame)))
            return 1, []
        records = self._read(offset)
        return NOTHING if records is None else (1, self._answer(correlation_id, records))

    def _may_read(self) -> bool:
        access = self.context.access
        return access is None or self._partition.topic in access.readable_topics

    def _answer(self, correlation_id: int, records: Chunk) -> list[Chunk]:
        traffic, log = self._partition.traffic, self._partition.log
        size = len(records)
        traffic.fetches += 1
        traffic.bytes_out += size
        record_size = compact_size(size) if self._tail else _pack_size(size)
        head = self._head.pack(
            self._head.size - 4 + len(record_size) + size + len(self._tail), correlation_id, self._before,
            log.high_watermark, log.last_stable_offset, log.log_start_offset, self._between,
        )  # fmt: skip
        if size < OWN_CHUNK_BYTES_MIN and isinstance(records, Buffer):
            return [b"".join((head, record_size, records, self._tail))]
        return [head + record_size, records, self._tail] if self._tail else [head + record_size, records]

    def _read(self, offset: int) -> Chunk | None:
        """Return the records from an offset on; None if the usual path must find out what to answer."""
        request, log = self._request, self._partition.log
        if not log.local_start_offset <= offset < log.high_watermark:
            return None
        max_bytes = min(request.topics[0].partitions[0].partition_max_bytes, request.max_bytes)
        max_bytes = max(0, min(max_bytes, self._services.fetches.bytes_max))
        records = read_records(log, offset, max_bytes, self.context.api_version)
        return None if records is None or (len(records) < request.min_bytes and request.max_wait_ms > 0) else records

    # -- at the end of the log ---------------------------------------------------------------------------------------

    def _may_wait(self) -> bool:
        request = self._request
        return self._waiting is None and request.max_wait_ms > 0 and request.min_bytes > 0 and not self.is_over

    def _wait(self, offset: int, place: AnswerPlace) -> None:
        self._services.runtime.timeouts.add(self._wait_seconds, self)
        self._waiting = _Waiting(place, offset, self._request.min_bytes)
        place.work = self
        self._services.fetches.delayed[self] = None
        self._partition.purgatory.add(self, Mark.HIGH_WATERMARK, offset + 1)

    def try_complete(self, size: int) -> bool:
        """Note `size` more bytes; stay in the purgatory until the deferred actions."""
        waiting = self._waiting
        if waiting is not None:
            had, waiting.missing = waiting.missing, waiting.missing - size
            if had > 0 >= waiting.missing:
                self._services.runtime.deferred_actions.defer(self._go_on)
        return False

    def fail(self, error: KafkaError) -> None:
        """Answer soon: the usual path finds the error."""
        self._services.runtime.deferred_actions.defer(self.expire)

    def cancel(self) -> None:
        self._end_wait()

    @property
    def _wait_seconds(self) -> float:
        return self._request.max_wait_ms / 1000

    def time_out(self) -> None:
        self._services.fetches.expired["consumer"] += 1
        self.expire()

    def expire(self) -> None:
        if (waiting := self._end_wait()) is not None:
            self._leave_to_usual_path(waiting, 0)

    def _go_on(self) -> None:
        if self._waiting is None or self._waiting.missing > 0:  # it is another wait
            return
        waiting, self._waiting = self._waiting, None
        ends_at = self._leave_wait()
        meters = self._services.quotas.meters
        is_usual = not self.is_over and self._may_read() and (meters is None or not meters.limit(self.context))
        records = self._read(waiting.offset) if is_usual else None
        if records is None:
            seconds_left = ends_at - self._services.runtime.clock.seconds()
            self._leave_to_usual_path(waiting, max(1, ceil(seconds_left * 1000)))
        else:
            waiting.place.encoded(self._answer(waiting.place.correlation_id, records))

    def _end_wait(self) -> _Waiting | None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            self._leave_wait()
        return waiting

    def _leave_wait(self) -> float:
        """Return the time at which the wait would have ended."""
        self._partition.purgatory.remove(self, Mark.HIGH_WATERMARK)
        self._services.fetches.delayed.pop(self, None)
        return self._services.runtime.timeouts.remove(self._wait_seconds, self)

    def _leave_to_usual_path(self, waiting: _Waiting, wait_ms: int) -> None:
        request = copy(self._request)
        request.max_wait_ms = wait_ms
        [topic] = request.topics
        partition = copy(topic.partitions[0])
        partition.fetch_offset = waiting.offset
        by_id = self.context.api_version >= FIRST_WITH_IDS
        requested = RequestedPartition(topic.topic_id if by_id else topic.topic, partition)
        answer = maybeDeferred(fetch, self._services, self.context, request, None, [requested], False)
        waiting.place.await_answer(answer)


def read_records(log: Log, offset: int, max_bytes: int, version: int, min_one: bool = True) -> Chunk | None:
    """Return records from an offset below the high watermark on; None if the usual path must find out what to answer.

    Without `min_one`, the result may be empty.
    """
    if version < _FIRST_WITH_ZSTD and log.config.compression_type == "zstd":
        return None
    try:
        region = log.read(offset, max_bytes, upto=log.high_watermark, min_one=min_one, may_wait=False)
    except (KafkaError, NotCached):
        return None
    if region is None:
        return None if min_one else b""
    if region.length <= HEADER_V2.size:
        return None
    needs_v2 = version >= FIRST_WITH_V2_ALONE
    if region.length > READ_INLINE_BYTES_MAX:
        return region if is_cached(region) and not (needs_v2 and magic_if_cached(region) != 2) else None
    data = read_if_cached(region)
    return None if data is None or (needs_v2 and data[MAGIC_AT] != 2) else data
