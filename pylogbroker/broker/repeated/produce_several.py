"""Produce requests for several partitions that begin like an earlier one; their partitions may be others.

    request     api_key:2 version:2 | correlation_id:4 | prefix | number of topics | topics | tags
                                                         as learned
    topic       name or id:16 | number of partitions | partitions | tags
    partition   index:4 | size, records | tags
    answer      size:4 correlation_id:4 | tags | number of topics | topics | as learned
    topic       name or id:16 | number of partitions | partitions | tags
    partition   index:4 | as learned | base_offset:8 | as learned | log_start_offset:8 | as learned

`frames` has the encodings of counts, names and tags. They are the same in both, so the answer repeats the bytes around
the partitions of the request.

All batches are prepared before one is appended. If one is unusual, the whole request takes the usual path. What is
unusual for each partition is said in `produce`. Besides, no partition may be named twice. After a failed write, each
partition that is left takes the usual path as a request of its own, which finds the error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import dropwhile
from struct import Struct
from typing import Any, ClassVar, Final, Protocol
from uuid import UUID

import attrs
from twisted.internet.defer import Deferred, gatherResults, maybeDeferred

from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.broker.repeated import CORRELATION_ID_AT, NOTHING, PREFIX_AT, TakePlace
from pylogbroker.broker.repeated.frames import NOT_KNOWN, PARTITIONS_MAX, Frames, Unusual, frames_of, prefix_of
from pylogbroker.broker.repeated.produce import BASE_OFFSET, COMPRESSED_BYTES, LOG_START_OFFSET
from pylogbroker.broker.repeated.skipped_requests import SkippedRequests
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.requests.produced_records import ATTRIBUTES_AT, FIRST_BY_ID, FIRST_WITH_V2, FIRST_WITH_ZSTD
from pylogbroker.broker.services import HasMetadata, HasPartitions, HasRuntime
from pylogbroker.records import HEADER_V2, Buffer, Codec, PreparedRecords
from pylogbroker.records.batch import CODEC
from pylogbroker.wire import NO_ID, Chunk, request_codec, response_codec
from pylogbroker.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from pylogbroker.wire.primitives import identifier, text

REQUEST_BYTES_MAX: Final = 512 * 1024
"""Size of a request; each compressed batch counts more (see `produce`). The usual path handles more in steps."""

_ACKS: Final = (1, -1)
_INDEX: Final = 0x7EA1A2A3
"""Stands for the partition in the answer that is learned."""

_unpack_int = Struct(">i").unpack_from
_pack_start = Struct(">ii").pack

_ID_BYTES: Final = 16
Handle = Callable[[Any, RequestContext, ProduceRequest], Any]


class _Services(HasMetadata, HasPartitions, HasRuntime, Protocol):
    """Services that a repeated produce uses."""


@attrs.define(eq=False, repr=False)
class _Append:
    """Records for a partition; `repeated` is what the answer repeats of the request before this partition."""

    repeated: memoryview
    partition: Partition
    topic_id: UUID
    records: memoryview
    prepared: PreparedRecords

    def write(self) -> bool:
        return self.partition.append_prepared(self.prepared)


@attrs.define(eq=False, repr=False)
class ProduceToSeveral:
    """Form of requests for any partitions, and of their answers."""

    prefix: bytes
    """Constant part of a frame between the correlation id and the number of topics."""
    _encoding: Frames
    _request: ProduceRequest
    _services: _Services
    context: RequestContext
    _handle: Handle
    _answer: Struct
    _answer_parts: tuple[bytes, bytes, bytes]
    _answer_tail: bytes
    _skipped: SkippedRequests = attrs.field(factory=SkippedRequests, init=False)
    takes_places: ClassVar[bool] = False
    joinable: ClassVar[None] = None
    is_over: ClassVar[bool] = False  # each request names its partitions

    @classmethod
    def learn(
        cls,
        handle: Handle,
        services: _Services,
        context: RequestContext,
        frame: memoryview,
        body_at: int,
        request: ProduceRequest,
    ) -> ProduceToSeveral | None:
        """Return the form of a request; None if it has none that is known.

        `handle` is the usual path. The body of the request begins at `body_at` in its frame.
        """
        version = context.api_version
        if version < FIRST_WITH_V2 or request.acks not in _ACKS or request.transactional_id is not None:
            return None
        encoding = frames_of(ProduceRequest.versions.is_flexible(version))
        empty = ProduceRequest(None, request.acks, request.timeout_ms, [])
        before = (
            request_codec(ProduceRequest.api_key, version)
            .encode(empty)
            .removesuffix(encoding.no_elements + encoding.tags)
        )
        prefix = prefix_of(frame, body_at, before)
        if prefix is None:
            return None
        return cls(
            prefix, encoding, empty, services, context, handle, *_answer_form(version, encoding),
        )  # fmt: skip

    def answer_run(self, frames: Sequence[memoryview], take_place: TakePlace) -> tuple[int, list[Chunk]]:
        """Append the records of the first request of `frames`, if all are usual; return 1 and the answer."""
        if self._skipped.has_next():
            return NOTHING
        frame = frames[0]
        try:
            appends, rest = self._prepare(frame)
        except NOT_KNOWN:
            self._skipped.unusual()
            return NOTHING
        [correlation_id] = _unpack_int(frame, CORRELATION_ID_AT)
        left = list(dropwhile(_Append.write, appends))
        if left:
            self._skipped.unusual()
            answers = gatherResults([self._append_as_usual(append) for append in left], consumeErrors=True)
            take_place(correlation_id, len(frame)).await_answer(answers.addCallback(_response, left, appends))
            return 1, []
        self._skipped.usual()
        return 1, [self._answer_to(correlation_id, appends, rest)]

    def _prepare(self, frame: memoryview) -> tuple[list[_Append], memoryview]:
        """Return the appends, and the bytes behind the last partition that the answer repeats.

        The limits count before a batch is prepared, which takes time.
        """
        encoding = self._encoding
        read_count, behind_tags = encoding.read_count, encoding.behind_tags
        now_ms = self._services.runtime.now_ms()
        repeated_at = PREFIX_AT + len(self.prefix)
        topics, at = read_count(frame, repeated_at)
        appends: list[_Append] = []
        compressed = 0
        for _ in range(topics):
            topic, topic_id, at = self._topic(frame, at)
            partitions, at = read_count(frame, at)
            for _ in range(partitions):
                [index] = _unpack_int(frame, at)
                size, records_at = read_count(frame, at + 4)
                records = frame[records_at : records_at + size]
                compressed += len(records) > ATTRIBUTES_AT and records[ATTRIBUTES_AT] & CODEC != 0
                if (
                    size != len(records)
                    or len(appends) == PARTITIONS_MAX
                    or len(frame) + compressed * COMPRESSED_BYTES > REQUEST_BYTES_MAX
                ):
                    raise Unusual
                partition = self._usual_partition(topic, index)
                prepared = self._prepared(partition, records, now_ms)
                appends.append(_Append(frame[repeated_at:at], partition, topic_id, records, prepared))
                repeated_at = at = behind_tags(frame, records_at + size)
            at = behind_tags(frame, at)
        if behind_tags(frame, at) != len(frame) or len({append.partition for append in appends}) != len(appends):
            raise Unusual
        return appends, frame[repeated_at:at]

    def _topic(self, frame: memoryview, at: int) -> tuple[str, UUID, int]:
        """Return name and id of a writable topic, as far as the request has them, and the position behind."""
        if self.context.api_version >= FIRST_BY_ID:
            end = at + _ID_BYTES
            topic_id = identifier(frame[at:end].tobytes())
            topic = self._services.metadata.image.topic_names.get(topic_id.int, "")
        else:
            size, at = self._encoding.read_name_size(frame, at)
            end, topic_id = at + size, NO_ID
            topic = text(frame[at:end].tobytes())
        access = self.context.access
        if access is not None and topic not in access.writable_topics:
            raise Unusual
        return topic, topic_id, end

    def _usual_partition(self, topic: str, index: int) -> Partition:
        """Return a partition whose next batch needs no further rules."""
        partition = self._services.partitions.led.get((topic, index))
        rejected = self.context.caller.rejected_batches
        if (
            partition is None
            or partition.is_internal
            or (rejected is not None and rejected.concern(topic, index))
            or (self._request.acks == -1 and (partition.replication is not None or partition.min_insync_replicas > 1))
        ):
            raise Unusual
        return partition

    def _prepared(self, partition: Partition, records: memoryview, now_ms: int) -> PreparedRecords:
        if len(records) < HEADER_V2.size or (
            self.context.api_version < FIRST_WITH_ZSTD and records[ATTRIBUTES_AT] & CODEC == Codec.ZSTD
        ):
            raise Unusual
        prepared = partition.prepare_run([records], now_ms)
        if prepared is None:
            raise Unusual
        return prepared

    def _answer_to(self, correlation_id: int, appends: Sequence[_Append], rest: memoryview) -> bytes:
        pack, (before, between, behind) = self._answer.pack, self._answer_parts
        chunks: list[Buffer] = [b"", self._encoding.tags]
        for append in appends:
            index, base_offset = append.partition.index, append.prepared.base_offset
            chunks.append(append.repeated)
            if between:
                log_start_offset = append.partition.log.log_start_offset
                chunks.append(pack(index, before, base_offset, between, log_start_offset, behind))
            else:
                chunks.append(pack(index, before, base_offset, behind))
        chunks += (rest, self._answer_tail)
        chunks[0] = _pack_start(4 + sum(map(len, chunks)), correlation_id)
        return b"".join(chunks)

    def _append_as_usual(self, append: _Append) -> Deferred[ProduceResponse]:
        """Append to one partition as a request of its own."""
        partition = append.partition
        data = [PartitionProduceData(partition.index, append.records)]
        topic = TopicProduceData(partition.topic, data, append.topic_id)
        request = ProduceRequest(None, self._request.acks, self._request.timeout_ms, [topic])
        return maybeDeferred(self._handle, self._services, self.context, request)


def _response(
    answers: Sequence[ProduceResponse], last: Sequence[_Append], appends: Sequence[_Append]
) -> ProduceResponse:
    """Return the answer to a request of which the `last` partitions were appended as usual, with `answers`."""
    usual = {append.partition: answer for append, answer in zip(last, answers, strict=True)}
    response = ProduceResponse([])
    for append in appends:
        partition = append.partition
        if (answer := usual.get(partition)) is not None:
            response.node_endpoints += answer.node_endpoints
            partition_answers = answer.responses[0].partition_responses
        else:
            offsets = append.prepared.base_offset, -1, partition.log.log_start_offset
            partition_answers = [PartitionProduceResponse(partition.index, 0, *offsets)]
        if not response.responses or response.responses[-1].name != partition.topic:
            response.responses.append(TopicProduceResponse(partition.topic, [], append.topic_id))
        response.responses[-1].partition_responses += partition_answers
    return response


def _answer_form(version: int, encoding: Frames) -> tuple[Struct, tuple[bytes, bytes, bytes], bytes]:
    """Return how the answer of a partition is packed, its constant parts around the offsets, and what is behind all."""
    codec = response_codec(ProduceResponse.api_key, version)
    head_size = 8 + len(encoding.tags + encoding.no_elements)
    tail = _joined(codec.frame(0, ProduceResponse([])))[head_size:]
    answer = PartitionProduceResponse(_INDEX, 0, BASE_OFFSET, -1, LOG_START_OFFSET)
    frame = _joined(codec.frame(0, ProduceResponse([TopicProduceResponse("", [answer])])))
    _, _, rest = frame.removesuffix(encoding.tags + tail).partition(_INDEX.to_bytes(4))
    before, _, rest = rest.partition(BASE_OFFSET.to_bytes(8))
    between, has_start, behind = rest.partition(LOG_START_OFFSET.to_bytes(8))
    if not has_start:
        return Struct(f">i{len(before)}sq{len(rest)}s"), (before, b"", rest), tail
    return Struct(f">i{len(before)}sq{len(between)}sq{len(behind)}s"), (before, between, behind), tail


def _joined(chunks: Any) -> bytes:
    return b"".join(chunks)
