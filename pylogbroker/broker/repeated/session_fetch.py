"""Incremental fetch requests of a session, of a follower or a consumer, that repeat an earlier one.

    request     api_key:2 version:2 | correlation_id:4 | prefix | session_epoch:4 | topics | rest
                                                         as learned                          as learned
    answer      size:4 correlation_id:4 | as learned | topics | tags

Topics and partitions are those of `fetch_several`. The request names the partitions that are fetched from elsewhere
than before, and the answer those with news. The prefix ends with the id of the session; the rest forgets no partition.

The session, a reader and a builder of responses have the rules. They are those of usual requests, but one reader serves
all requests of a form. What is left to usual requests:

    what is unusual                                      noticed
    ---------------------------------------------------  ----------------------------------------------------------
    read_committed; nearest replicas (KIP-392); quotas   nothing is learned
    another session epoch; partitions that are new in    before anything has changed: the usual path
    the session, or are forgotten; tagged fields
    many partitions; records to convert, or that are     after a read: a FetchOperation goes on with its result
    not in the page cache
    errors, divergence, throttling                       after a read: the usual encoding

One partition of a follower's session that alone has news takes fewer steps: `FollowerReader.confirm` notes a request
that finds none yet, and `read_news` reads them.

A request that waits is a small delayed operation. When the partitions have grown by the missing bytes, the deferred
actions answer it.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from math import ceil
from struct import Struct
from typing import Any, ClassVar, Final, Protocol
from uuid import UUID

import attrs

from pylogbroker.broker.fetch.follower_session import FollowerSession
from pylogbroker.broker.fetch.operation import (
    PARTITIONS_INLINE_MAX,
    FetchEvent,
    FetchOperation,
    FetchState,
    names_nothing,
    read_first,
)
from pylogbroker.broker.fetch.reader import FetchReader, FollowerReader, make_reader
from pylogbroker.broker.fetch.response_builder import FetchResponseBuilder
from pylogbroker.broker.fetch.session import (
    FetchSession,
    PartitionKey,
    RequestedPartition,
    RequestedPartitions,
    TopicKey,
)
from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.broker.repeated import CORRELATION_ID_AT, NOTHING, PREFIX_AT, AnswerPlace, TakePlace
from pylogbroker.broker.repeated.fetch import FIRST_WITH_IDS, OWN_CHUNK_BYTES_MIN
from pylogbroker.broker.repeated.fetch_several import answer_form, joined, partition_of, with_topics
from pylogbroker.broker.repeated.frames import NOT_KNOWN, Frames, Unusual, first_difference, frames_of, prefix_of
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.services import HasFetches, HasMetadata, HasNode, HasPartitions, HasQuotas, HasRuntime
from pylogbroker.errors import KafkaError
from pylogbroker.storage import FileRegion
from pylogbroker.wire import Chunk, request_codec, response_codec
from pylogbroker.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse
from pylogbroker.wire.primitives import identifier, text

_ID_BYTES: Final = 16
_INDEX_BYTES: Final = 4
_NAMES_MAX: Final = 1000
"""Topics, and partitions that requests named alone, whose encodings are remembered."""

_unpack_int = Struct(">i").unpack_from
_pack_start = Struct(">ii").pack


class _Services(HasRuntime, HasMetadata, HasPartitions, HasQuotas, HasNode, HasFetches, Protocol):
    """Services that a repeated fetch uses."""


@attrs.define(eq=False, repr=False)
class RepeatedSessionFetch:
    """Form of a session's incremental requests, and of their answers."""

    prefix: bytes
    """Constant part of a frame between the correlation id and the session epoch."""
    _rest: bytes
    _behind_one: bytes
    """Bytes behind the fields of a partition that is named alone."""
    _request: FetchRequest
    _session: FetchSession
    _follower: FollowerSession | None
    _services: _Services
    context: RequestContext
    _encoding: Frames
    _partition: Struct
    _head: bytes
    _answer: Struct
    _before: bytes
    _between: bytes
    _reader: FetchReader
    _may_wait: bool
    _is_handed_over: bool = attrs.field(default=False, init=False)
    """The reader belongs to an operation; the next request gets another one."""
    _alone: dict[bytes, PartitionKey] = attrs.field(factory=dict, init=False)
    """Partitions by the bytes between session epoch and fields, in requests that name one."""
    _lone_heads: dict[TopicKey, bytes] = attrs.field(factory=dict, init=False)
    """Beginnings of answers with one partition, by topic; each topic of them has a name here."""
    _topics: dict[bytes, str | UUID] = attrs.field(factory=dict, init=False)
    _names: dict[str | UUID, bytes] = attrs.field(factory=dict, init=False)
    takes_places: ClassVar[bool] = False
    joinable: ClassVar[None] = None

    @classmethod
    def learn(
        cls, services: _Services, context: RequestContext, frame: memoryview, body_at: int, request: FetchRequest
    ) -> RepeatedSessionFetch | None:
        """Return the form of an incremental request; None if it has none that is known.

        The body of the request begins at `body_at` in its frame.
        """
        version = context.api_version
        session, meters = services.fetches.sessions.find(request.session_id), services.quotas.meters
        if (
            session is None
            or session.by_id != (version >= FIRST_WITH_IDS)
            or request.isolation_level
            or services.fetches.selects_by_rack
            or (meters is not None and meters.limit(context))
        ):
            return None
        encoding = frames_of(FetchRequest.versions.is_flexible(version))
        own = with_topics(request, [])
        own.forgotten_topics_data = []
        encode = request_codec(FetchRequest.api_key, version).encode
        before, rest = _around_epoch(own, encode)
        rest = rest.removeprefix(encoding.no_elements)
        prefix = prefix_of(frame, body_at, before, rest)
        if prefix is None:
            return None
        follower = session if isinstance(session, FollowerSession) else None
        reader = make_reader(services, context, copy(own))
        return cls(
            prefix, rest, encoding.tags + rest, own, session, follower, services, context, encoding,
            partition_of(version), *answer_form(version, encoding, session.id), reader,
            own.max_wait_ms > 0 and own.min_bytes > 0,
        )  # fmt: skip

    @property
    def is_over(self) -> bool:
        """True if the session has ended."""
        return self._services.fetches.sessions.find(self._session.id) is not self._session

    def answer_run(self, frames: Sequence[memoryview], take_place: TakePlace) -> tuple[int, list[Chunk]]:
        """Read for the first request of `frames`, if it has this form; return 1 and the answer, unless it waits."""
        frame, session = frames[0], self._session
        epoch_at = PREFIX_AT + len(self.prefix)
        try:
            [epoch] = _unpack_int(frame, epoch_at)
            if epoch != session.epoch:
                return NOTHING
            if not self._update_one(frame, epoch_at + 4):
                session.update(self._request, self._parse(frame, epoch_at + 4))
        except NOT_KNOWN:
            return NOTHING
        self._services.fetches.sessions.used(session, self._services.runtime.now_ms())
        if self._is_handed_over:
            self._reader, self._is_handed_over = self._new_reader(), False
        [correlation_id] = _unpack_int(frame, CORRELATION_ID_AT)
        to_read, reader = session.to_read(), self._reader
        if self._may_wait and len(to_read) == 1 and isinstance(reader, FollowerReader) and reader.confirm(to_read[0]):
            place, missing = take_place(correlation_id, len(frame)), self._request.min_bytes
            _Wait(self, place, to_read, reader, missing, self._services, self._follower).begin()
            return 1, []
        if read_first(reader, to_read, session):
            return 1, self.answered(correlation_id, to_read)
        place = take_place(correlation_id, len(frame))
        if len(to_read) > PARTITIONS_INLINE_MAX or reader.has_enough or names_nothing(to_read, session):
            place.await_answer(self.operation(to_read).start())
        else:
            missing = self._request.min_bytes - reader.size
            _Wait(self, place, to_read, reader, missing, self._services, self._follower).begin()
        return 1, []

    def _new_reader(self) -> FetchReader:
        return make_reader(self._services, self.context, copy(self._request))

    # -- requests ------------------------------------------------------------------------------------------------------

    def _update_one(self, frame: memoryview, at: int) -> bool:
        """Update the session if a request names one partition, as an earlier one did, in the same leader epoch."""
        fields, behind = self._partition, self._behind_one
        fields_at = len(frame) - len(behind) - fields.size
        key = self._alone.get(frame[at : fields_at + _INDEX_BYTES].tobytes()) if fields_at > at else None
        present = None if key is None else self._session.partitions.get(key)
        if key is None or present is None or frame[fields_at + fields.size :] != behind:
            return False
        partition = _partition(fields.unpack_from(frame, fields_at))
        if partition.current_leader_epoch != present.partition.current_leader_epoch:
            return False
        present.partition = partition
        self._session.update_one(key, present)
        return True

    def _parse(self, frame: memoryview, at: int) -> RequestedPartitions:
        """Return the named partitions, all of which the session has; raise an error of NOT_KNOWN if one is unusual."""
        encoding, session_partitions = self._encoding, self._session.partitions
        read_count, behind_tags, fields = encoding.read_count, encoding.behind_tags, self._partition
        begin = at
        topics, at = read_count(frame, at)
        requested: RequestedPartitions = {}
        for _ in range(topics):
            topic, at = self._read_topic(frame, at)
            partitions, at = read_count(frame, at)
            for _ in range(partitions):
                partition = _partition(fields.unpack_from(frame, at))
                key: PartitionKey = topic, partition.partition
                if key not in session_partitions or len(requested) == PARTITIONS_INLINE_MAX:
                    raise Unusual
                requested[key] = RequestedPartition(topic, partition)
                if topics == partitions == 1 and len(self._alone) < _NAMES_MAX:
                    self._alone[frame[begin : at + _INDEX_BYTES].tobytes()] = key
                at += fields.size
            at = behind_tags(frame, at)
        if frame[at:] != self._rest:
            raise Unusual
        return requested

    def _read_topic(self, frame: memoryview, at: int) -> tuple[str | UUID, int]:
        end = at + _ID_BYTES
        if not self._session.by_id:
            size, name_at = self._encoding.read_name_size(frame, at)
            end = name_at + size
        name = frame[at:end].tobytes()
        topic = self._topics.get(name)
        if topic is None:
            topic = identifier(name) if self._session.by_id else text(name[len(name) - size :])
            if len(self._topics) < _NAMES_MAX:
                self._topics[name], self._names[topic] = topic, name
        return topic, end

    # -- answers -------------------------------------------------------------------------------------------------------

    def _builder(self, reader: FetchReader) -> FetchResponseBuilder:
        return FetchResponseBuilder(self._services, reader, self._session, True)

    def answered(self, correlation_id: int, to_read: list[RequestedPartition]) -> list[Chunk]:
        """Return the answer with what the reader has read."""
        reader = self._reader
        response = self._builder(reader).build(to_read)
        chunks = None if reader.is_urgent or response.throttle_time_ms else self._encoded(correlation_id, response)
        reader.forget()
        if chunks is None:
            chunks = response_codec(FetchResponse.api_key, self.context.api_version).frame(correlation_id, response)
        return chunks

    def news(self, correlation_id: int, requested: RequestedPartition) -> list[Chunk] | None:
        """Return the answer with records of the only partition that has news; None if the usual read must find it."""
        reader, topic = self._reader, requested.topic
        head = self._lone_heads.get(topic)
        if head is None:
            if (name := self._names.get(topic)) is None:
                return None
            one = self._encoding.count(1)
            head = self._lone_heads[topic] = self._head + one + name + one
        if not isinstance(reader, FollowerReader) or (read := reader.read_news(requested)) is None:
            return None
        partition, records = read
        log = partition.log
        requested.sent_high_watermark, requested.sent_log_start = log.high_watermark, log.log_start_offset
        fields = self._answer.pack(
            partition.index, self._before, log.high_watermark, log.last_stable_offset, log.log_start_offset,
            self._between,
        )  # fmt: skip
        body = b"".join((head, fields, self._encoding.count(len(records)), records, 3 * self._encoding.tags))
        reader.forget()
        return [_pack_start(4 + len(body), correlation_id) + body]

    def _encoded(self, correlation_id: int, response: FetchResponse) -> list[Chunk] | None:
        """Encode a response without errors; return None if a topic's encoding is not known."""
        pack, before, between, encoding = self._answer.pack, self._before, self._between, self._encoding
        count, tags, names = encoding.count, encoding.tags, self._names
        chunks: list[Any] = [b"", self._head, count(len(response.responses))]
        size, is_small = 4 + len(self._head) + len(chunks[2]), True
        for topic in response.responses:
            name = names.get(topic.topic or topic.topic_id)
            if name is None:
                return None
            head = name + count(len(topic.partitions))
            for answer in topic.partitions:
                records: Any = answer.records
                record_bytes = len(records)
                head += pack(
                    answer.partition_index, before, answer.high_watermark, answer.last_stable_offset,
                    answer.log_start_offset, between,
                ) + count(record_bytes)  # fmt: skip
                chunks += (head, records)
                is_small &= record_bytes < OWN_CHUNK_BYTES_MIN and type(records) is not FileRegion
                size += len(head) + record_bytes
                head = tags
            chunks.append(head + tags)
            size += len(chunks[-1])
        chunks.append(tags)
        chunks[0] = _pack_start(size + len(tags), correlation_id)
        return [b"".join(chunks)] if is_small else list(joined(chunks))

    def operation(self, to_read: list[RequestedPartition], state: FetchState = FetchState.READING) -> FetchOperation:
        """Return an operation that goes on with the reader."""
        reader, self._is_handed_over = self._reader, True
        return FetchOperation(
            self._services, self.context, reader.request, to_read, self._follower, reader, self._builder(reader), state
        )


@attrs.define(eq=False, repr=False)
class _Wait:
    """Request of a form that waits until its partitions have grown by `missing` more bytes; a DelayedOperation."""

    _form: RepeatedSessionFetch
    _place: AnswerPlace
    _to_read: list[RequestedPartition]
    _reader: FetchReader
    _missing: int
    _services: _Services
    _follower: FollowerSession | None
    _watched: list[Partition] = attrs.field(factory=list, init=False)
    _seconds: float = attrs.field(init=False)
    _ends_at: float = attrs.field(default=0.0, init=False)
    _is_over: bool = attrs.field(default=False, init=False)

    def begin(self) -> None:
        services, follower, mark = self._services, self._follower, self._reader.mark
        self._seconds = self._reader.request.max_wait_ms / 1000
        services.runtime.timeouts.add(self._seconds, self)
        self._place.work = self
        services.fetches.delayed[self] = None
        if follower is not None:
            follower.waiting = self
        for requested, partition in zip(self._to_read, self._reader.partitions, strict=True):
            if partition is not None and (follower is None or not follower.is_watching(requested)):
                self._watched.append(partition)
                partition.purgatory.add(self, mark, partition.offset(mark) + 1)
        if (follower is not None and follower.has_unread_news) or self._reader.has_grown():
            self._missing = 0
        if self._missing <= 0:
            self._go_on()

    def try_complete(self, size: int) -> bool:
        """Note `size` more bytes; stay in the purgatory until the deferred actions."""
        had, self._missing = self._missing, self._missing - size
        if had > 0 >= self._missing:
            self._services.runtime.deferred_actions.defer(self._go_on)
        return False

    def fail(self, error: KafkaError) -> None:
        """Answer soon: the next read finds the error."""
        if self._missing > 0:
            self._missing = 0
            self._services.runtime.deferred_actions.defer(self.expire)

    def cancel(self) -> None:
        self._end()

    def time_out(self) -> None:
        self._services.fetches.expired[self._reader.fetcher] += 1
        self.expire()

    def expire(self) -> None:
        self._answer(FetchEvent.EXPIRED)

    def _go_on(self) -> None:
        self._answer(FetchEvent.GROWN)

    def _answer(self, event: FetchEvent) -> None:
        """Answer with what is there now. An operation does so if it is much, or not in the page cache."""
        if self._is_over:
            return
        reader, place = self._reader, self._place
        self._end()
        to_read = self._to_read if self._follower is None else self._follower.to_read()
        if len(to_read) > PARTITIONS_INLINE_MAX:
            seconds_left = self._ends_at - self._services.runtime.clock.seconds()
            reader.request.max_wait_ms = max(0, ceil(seconds_left * 1000))
            place.await_answer(self._form.operation(self._to_read, FetchState.WAITING).go_on(event))
            return
        if event is FetchEvent.GROWN and len(to_read) == 1:
            news = self._form.news(place.correlation_id, to_read[0])
            if news is not None:
                place.encoded(news)
                return
        reader.begin(resumes=True)
        reader.read(to_read)
        if reader.is_ready(reader.answers):
            place.encoded(self._form.answered(place.correlation_id, to_read))
        else:
            place.await_answer(self._form.operation(to_read).go_on(FetchEvent.MIN_BYTES_FOUND))

    def _end(self) -> None:
        if self._is_over:
            return
        self._is_over = True
        for partition in self._watched:
            partition.purgatory.remove(self, self._reader.mark)
        self._services.fetches.delayed.pop(self, None)
        if self._follower is not None and self._follower.waiting is self:
            self._follower.waiting = None
        self._ends_at = self._services.runtime.timeouts.remove(self._seconds, self)


def _partition(fields: tuple[int, ...]) -> FetchPartition:
    """Return a partition of a request by the fields of `partition_of`."""
    if len(fields) == 7:
        index, leader_epoch, offset, fetched_epoch, log_start_offset, max_bytes, tags = fields
        if tags:
            raise Unusual
        return FetchPartition(index, leader_epoch, offset, fetched_epoch, log_start_offset, max_bytes)
    if len(fields) == 5:
        index, leader_epoch, offset, log_start_offset, max_bytes = fields
        return FetchPartition(index, leader_epoch, offset, -1, log_start_offset, max_bytes)
    index, offset, log_start_offset, max_bytes = fields
    return FetchPartition(index, -1, offset, -1, log_start_offset, max_bytes)


def _around_epoch(request: FetchRequest, encode: Any) -> tuple[bytes, bytes]:
    """Return what is before and behind the session epoch in an encoded request."""
    other = copy(request)
    request.session_epoch, other.session_epoch = 0, -1
    zeros, ones = encode(request), encode(other)
    at = first_difference(zeros, ones)
    return zeros[:at], zeros[at + 4 :]
