"""Produce requests for one partition that repeat an earlier one: other records, the same rest.

    request     api_key:2 version:2 | correlation_id:4 | prefix | size, records | tail
                                                         as learned               as learned
    answer      size:4 correlation_id:4 | as learned | base_offset:8 | as learned | log_start_offset:8 | as learned

The size of the records is an int32 before version 9, and a varint of size + 1 from there on. The tail has the empty
tagged fields of these versions. Answers before version 5 have no log start offset. Requests for several partitions have
another form (see `produce_several`).

The records of one read, and those of other connections that are joined, are appended together
(`Partition.prepare_run`), up to the first unusual batch. With acks=all and replicas, the answers to a read wait
together (`pylogbroker.broker.repeated.waiting_runs`). These requests take the usual path:

    what is unusual                                          noticed
    -------------------------------------------------------  ------------------------------------------------
    errors, throttling, LogAppendTime; acks=0,               no answer, or another one: nothing is learned
    transactional ids, tagged fields
    another leader; acks=all with too few replicas in sync   before each run
    topics that may not be written any more; a partition     before each run
    that has rejected a batch of the connection
    other settings, offline logs, queued appends; batches    by `Partition.prepare_run`
    to reject, to change, or out of their producer's order
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from struct import Struct
from typing import Any, Final, Protocol

import attrs

from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.broker.repeated import NOTHING, PREFIX_AT, AnswerPlace, JoinedRequests, TakePlace
from pylogbroker.broker.repeated.frames import prefix_of
from pylogbroker.broker.repeated.skipped_requests import SkippedRequests
from pylogbroker.broker.repeated.waiting_runs import WAITING_REQUESTS_MAX, WaitingRuns
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.requests.produced_records import ATTRIBUTES_AT, FIRST_WITH_V2, FIRST_WITH_ZSTD
from pylogbroker.broker.services import HasMetadata, HasNode, HasPartitions, HasRuntime
from pylogbroker.errors import KafkaError
from pylogbroker.records import AppendedEntry, Codec
from pylogbroker.records.batch import CODEC
from pylogbroker.wire import Chunk, WireError, request_codec, response_codec
from pylogbroker.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from pylogbroker.wire.primitives import read_uvarint

RUN_BYTES_MAX: Final = 128 * 1024
RUN_REQUESTS_MAX: Final = 256
"""With as many of either, other requests and answers come before the rest of a read, or of joined reads."""

COMPRESSED_BYTES: Final = RUN_BYTES_MAX // 2
"""Least size that a compressed batch counts: the check inflates it, and its own size says little of the time."""

_HEADER_V2_BYTES: Final = 61
_NO_OFFSET: Final = -1
_unpack_start = Struct(">Ii").unpack_from
_unpack_size = Struct(">i").unpack_from
BASE_OFFSET: Final = 0x7E818283_84858687
LOG_START_OFFSET: Final = 0x7E919293_94959697
"""Stand for the offsets in the answer that is learned; no topic name has such bytes."""


Outcome = tuple[list[int], list[AppendedEntry], int]
"""Correlation ids, batches that were appended, and bytes of the requests."""


class _Services(HasMetadata, HasPartitions, HasNode, HasRuntime, Protocol):
    """Services that a repeated produce uses."""


@attrs.define(eq=False, repr=False)
class RepeatedProduce:
    """Form of a request for one partition, and of its answer."""

    prefix: bytes
    """Constant part of a frame between the correlation id and the size of the records."""
    _tail: bytes
    _acks: int
    _version: int
    _is_flexible: bool
    _topic: str
    _partition: Partition
    _services: _Services
    context: RequestContext
    _answer: Struct
    _answer_parts: tuple[bytes, bytes, bytes]
    _waiting: WaitingRuns
    _skipped: SkippedRequests = attrs.field(factory=SkippedRequests, init=False)
    _last_offset: int = attrs.field(default=_NO_OFFSET, init=False)
    """End of what this form has appended alone."""
    _start: int = attrs.field(init=False)
    """API and version."""
    _records_at: int = attrs.field(init=False)
    """Position of the size of the records."""
    _bytes_min: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._start = ProduceRequest.api_key << 16 | self._version
        self._records_at = PREFIX_AT + len(self.prefix)
        self._bytes_min = self._records_at + 1 + _HEADER_V2_BYTES + len(self._tail)

    @classmethod
    def learn(
        cls,
        services: _Services,
        context: RequestContext,
        frame: memoryview,
        body_at: int,
        request: ProduceRequest,
        response: ProduceResponse,
    ) -> RepeatedProduce | None:
        """Return the form of a request that was answered; None if it has none that is known.

        The body of the request begins at `body_at` in its frame.
        """
        topics, version = request.topic_data, context.api_version
        if len(topics) != 1 or len(topics[0].partition_data) != 1 or version < FIRST_WITH_V2:
            return None
        [topic] = topics
        [data] = topic.partition_data
        partition = services.partitions.led.get((topic.name, data.index))
        if partition is None or request.acks == 0 or request.transactional_id is not None or response.throttle_time_ms:
            return None
        [answer] = response.responses[0].partition_responses
        if answer.error_code or answer.log_append_time_ms >= 0:
            return None
        empty = TopicProduceData(topic.name, [PartitionProduceData(data.index, None)], topic.topic_id)
        body = request_codec(ProduceRequest.api_key, version).encode(
            ProduceRequest(request.transactional_id, request.acks, request.timeout_ms, [empty])
        )
        is_flexible = ProduceRequest.versions.is_flexible(version)
        before, tail = (body[:-4], body[-3:]) if is_flexible else (body[:-4], b"")
        prefix = prefix_of(frame, body_at, before, tail)
        if prefix is None:
            return None
        return cls(
            prefix, tail, request.acks, version, is_flexible, topic.name, partition, services, context,
            *_answer_form(response, version),
            WaitingRuns(partition, topic.topic_id, services, context, max(request.timeout_ms, 0) / 1000),
        )  # fmt: skip

    @property
    def is_over(self) -> bool:
        """True if the partition is not led here any more, or was created again."""
        return self._services.partitions.led.get((self._topic, self._partition.index)) is not self._partition

    @property
    def takes_places(self) -> bool:
        """True if answers wait for replicas."""
        return self._acks == -1 and self._partition.replication is not None

    def answer_run(self, frames: Sequence[memoryview], take_place: TakePlace) -> tuple[int, list[Chunk]]:
        """Append the records of the first requests of `frames` that have this form; return number and answers.

        Answers that wait for replicas take one place.
        """
        if self._skipped.has_next() or not self._is_allowed():
            return NOTHING
        correlation_ids, batches, _ = self._split(frames)
        if not batches:
            return NOTHING
        appended = self._partition.prepare_run(batches, self._services.runtime.now_ms())
        if appended is None or not self._partition.append_prepared(appended):
            self._skipped.unusual()
            return NOTHING
        self._skipped.usual()
        self._last_offset = appended.last_offset
        answers = self._answers(correlation_ids, appended.entries)
        count = len(answers)
        if not self.takes_places:
            return count, [answers[0] if count == 1 else b"".join(answers)]
        held = sum(map(len, islice(frames, count)))
        self._await_replicas(take_place(correlation_ids[0], held, count), correlation_ids, appended.entries, answers)
        return count, []

    def _await_replicas(
        self, place: AnswerPlace, correlation_ids: list[int], batches: list[AppendedEntry], answers: list[bytes]
    ) -> None:
        """Answer batches in a place when the high watermark has passed them."""
        if self._partition.log.high_watermark > batches[-1].last_offset:
            place.encoded([b"".join(answers)])
        else:
            self._waiting.add(place, correlation_ids, batches, answers)

    @property
    def joinable(self) -> RepeatedProduce | None:
        """This form, unless all that was appended lately came with it alone."""
        return None if self._partition.log.log_end_offset - 1 == self._last_offset else self

    @property
    def subject(self) -> Partition:
        return self._partition

    def handle_joined(self, joined: Sequence[JoinedRequests]) -> None:
        """Append the records of requests of several connections together, up to the first unusual batch."""
        splits: list[tuple[JoinedRequests, list[int], int]] = []
        batches: list[memoryview] = []
        run_bytes = 0
        for requests in joined:
            form = requests.form
            if not form.may_join():
                continue
            correlation_ids, its_batches, size = form._split(requests.frames)
            if not its_batches:
                continue
            splits.append((requests, correlation_ids, len(its_batches)))
            batches += its_batches
            run_bytes += size
            if run_bytes >= RUN_BYTES_MAX or len(batches) >= RUN_REQUESTS_MAX:
                break
        appended = self._partition.prepare_run(batches, self._services.runtime.now_ms())
        if appended is None or not self._partition.append_prepared(appended):
            return
        entries, begin = appended.entries, 0
        for requests, correlation_ids, count in splits:
            its_entries = entries[begin : begin + count]
            if not its_entries:
                break
            begin += count
            popleft = requests.frames.popleft
            held = sum([len(popleft()) for _ in its_entries])
            requests.outcome = correlation_ids, its_entries, held
            requests.form._last_offset = appended.last_offset if len(joined) == 1 else _NO_OFFSET

    def may_join(self) -> bool:
        """Return whether the next requests need not take the usual path."""
        return not (self._skipped.is_next or self.is_over) and self._is_allowed()

    def answer_joined(self, outcome: Outcome, take_place: TakePlace) -> tuple[int, list[Chunk]]:
        """Return number and answers of requests whose records were appended."""
        self._skipped.usual()
        correlation_ids, entries, held = outcome
        answers = self._answers(correlation_ids, entries)
        count = len(answers)
        if not self.takes_places:
            return count, [answers[0] if count == 1 else b"".join(answers)]
        self._await_replicas(take_place(correlation_ids[0], held, count), correlation_ids, entries, answers)
        return count, []

    def _is_allowed(self) -> bool:
        partition, access, rejected = self._partition, self.context.access, self.context.caller.rejected_batches
        return (
            (access is None or self._topic in access.writable_topics)
            and (rejected is None or not rejected.concern(self._topic, partition.index))
            and (self._acks == 1 or self._has_enough_replicas())
        )

    def _has_enough_replicas(self) -> bool:
        if self._waiting.requests >= WAITING_REQUESTS_MAX:
            return False
        try:
            self._partition.check_enough_replicas()
        except KafkaError:
            return False
        return True

    def _split(self, frames: Sequence[memoryview]) -> tuple[list[int], list[memoryview], int]:
        """Return the correlation ids and the records of the first requests that have this form, and what they count."""
        correlation_ids: list[int] = []
        batches: list[memoryview] = []
        start, prefix, tail, is_flexible = self._start, self.prefix, self._tail, self._is_flexible
        records_at, least, knows_zstd = self._records_at, self._bytes_min, self._version >= FIRST_WITH_ZSTD
        run_bytes = 0
        for frame in frames:
            if len(frame) < least:
                break
            frame_start, correlation_id = _unpack_start(frame)
            if frame_start != start or frame[PREFIX_AT:records_at] != prefix:
                break
            if is_flexible:
                try:
                    size, at = read_uvarint(frame, records_at)
                except WireError:
                    break
                end = at + size - 1
                if frame[end:] != tail:
                    break
            else:
                at = records_at + 4
                end = at + _unpack_size(frame, records_at)[0]
                if end != len(frame):
                    break
            records = frame[at:end]
            codec = records[ATTRIBUTES_AT] & CODEC
            if codec == Codec.ZSTD and not knows_zstd:
                break
            correlation_ids.append(correlation_id)
            batches.append(records)
            run_bytes += max(len(records), COMPRESSED_BYTES) if codec else len(records)
            if run_bytes >= RUN_BYTES_MAX or len(batches) == RUN_REQUESTS_MAX:
                break
        return correlation_ids, batches, run_bytes

    def _answers(self, correlation_ids: list[int], entries: list[AppendedEntry]) -> list[bytes]:
        pack, size = self._answer.pack, self._answer.size - 4
        before, between, behind = self._answer_parts
        if len(entries) == 1 and between:  # as one at a time, or of many connections
            offset, start = entries[0].base_offset, self._partition.log.log_start_offset
            return [pack(size, correlation_ids[0], before, offset, between, start, behind)]
        if not between:
            return [
                pack(size, correlation_id, before, entry.base_offset, behind)
                for correlation_id, entry in zip(correlation_ids, entries, strict=False)
            ]
        start = self._partition.log.log_start_offset
        return [
            pack(size, correlation_id, before, entry.base_offset, between, start, behind)
            for correlation_id, entry in zip(correlation_ids, entries, strict=False)
        ]


def _answer_form(response: ProduceResponse, version: int) -> tuple[Struct, tuple[bytes, bytes, bytes]]:
    """Return how an answer is packed, and its constant parts: before, between and behind the offsets."""
    [topic] = response.responses
    [partition] = topic.partition_responses
    offsets = partition.base_offset, partition.log_start_offset
    partition.base_offset, partition.log_start_offset = BASE_OFFSET, LOG_START_OFFSET
    chunks: list[Any] = response_codec(ProduceResponse.api_key, version).frame(0, response)
    partition.base_offset, partition.log_start_offset = offsets
    frame = b"".join(chunks)
    before, _, rest = frame[8:].partition(BASE_OFFSET.to_bytes(8))
    between, has_start, behind = rest.partition(LOG_START_OFFSET.to_bytes(8))
    if not has_start:
        return Struct(f">ii{len(before)}sq{len(rest)}s"), (before, b"", rest)
    return Struct(f">ii{len(before)}sq{len(between)}sq{len(behind)}s"), (before, between, behind)
