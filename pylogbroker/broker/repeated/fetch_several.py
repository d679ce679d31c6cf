"""Fetch requests of consumers for several partitions, without a session, that begin and end like an earlier one.

    request     api_key:2 version:2 | correlation_id:4 | prefix | number of topics | topics | rest
                                                         as learned                          as learned
    topic       name or topic_id:16 | number of partitions | partitions | tags
    partition   index:4 [leader_epoch:4] fetch_offset:8 [last_fetched_epoch:4] log_start_offset:8 max_bytes:4 [tags]
    answer      size:4 correlation_id:4 | as learned | number of topics | topics | tags
    topic       name or topic_id:16 | number of partitions | partitions | tags
    partition   index:4 | as learned | high_watermark:8 last_stable_offset:8 log_start_offset:8
                | as learned | size, records | tags

`frames` has the encodings of counts, names and tags. They are the same in both, so the answer repeats the bytes around
the partitions of the request. A leader epoch is sent from version 9 on, a last fetched epoch from 12 on.

Partitions and offsets may be others in each request. It takes the usual path if one partition is unusual, as `fetch`
says, or is named twice; if it has too many; and if it must wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from itertools import groupby
from struct import Struct
from typing import Any, ClassVar, Final, Protocol
from uuid import UUID

import attrs

from pylogbroker.broker.fetch.session import CONSUMER, fetcher_of
from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.broker.repeated import CORRELATION_ID_AT, NOTHING, PREFIX_AT, TakePlace
from pylogbroker.broker.repeated.fetch import (
    FIRST_WITH_IDS,
    FIRST_WITH_LOG_START,
    NO_SESSION,
    OFFSET,
    OWN_CHUNK_BYTES_MIN,
    read_records,
)
from pylogbroker.broker.repeated.frames import NOT_KNOWN, PARTITIONS_MAX, Frames, Unusual, frames_of, prefix_of
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.services import HasFetches, HasPartitions
from pylogbroker.errors import KafkaError
from pylogbroker.records import Buffer
from pylogbroker.wire import Chunk, request_codec, response_codec
from pylogbroker.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from pylogbroker.wire.primitives import identifier, text

_FIRST_WITH_LEADER_EPOCH: Final = 9
_FIRST_FLEXIBLE: Final = 12
_ID_BYTES: Final = 16
_INDEX: Final = 0x7EA1A2A3
"""Stands for the partition in the answer that is learned."""

_unpack_int = Struct(">i").unpack_from
_pack_start = Struct(">ii").pack


class _Services(HasPartitions, HasFetches, Protocol):
    """Services that a repeated fetch uses."""


@attrs.define(eq=False, repr=False)
class _Read:
    """Partition to read; `repeated` is what the answer repeats of the request before it."""

    repeated: memoryview
    partition: Partition
    offset: int
    max_bytes: int
    records: Chunk = b""


@attrs.define(eq=False, repr=False)
class FetchOfSeveral:
    """Form of requests for any partitions, and of their answers."""

    prefix: bytes
    """Constant part of a frame between the correlation id and the number of topics."""
    _rest: bytes
    _request: FetchRequest
    _services: _Services
    context: RequestContext
    _encoding: Frames
    _partition: Struct
    _head: bytes
    _answer: Struct
    _before: bytes
    _between: bytes
    takes_places: ClassVar[bool] = False
    joinable: ClassVar[None] = None
    is_over: ClassVar[bool] = False  # each request names its partitions

    @classmethod
    def learn(
        cls, services: _Services, context: RequestContext, frame: memoryview, body_at: int, request: FetchRequest
    ) -> FetchOfSeveral | None:
        """Return the form of a request; None if it has none that is known.

        The body of the request begins at `body_at` in its frame.
        """
        version = context.api_version
        if (
            (request.session_id, request.session_epoch) != NO_SESSION
            or fetcher_of(request) != CONSUMER
            or request.isolation_level
            or version < FIRST_WITH_LOG_START
            or (request.rack_id and services.fetches.selects_by_rack)
        ):
            return None
        encoding = frames_of(FetchRequest.versions.is_flexible(version))
        without = with_topics(request, [])  # the form keeps none
        encode = request_codec(FetchRequest.api_key, version).encode
        before, rest = encoding.around_count(encode(without), encode(with_topics(request, [FetchTopic()])))
        prefix = prefix_of(frame, body_at, before, rest)
        if prefix is None:
            return None
        return cls(
            prefix, rest, without, services, context, encoding, partition_of(version),
            *answer_form(version, encoding),
        )  # fmt: skip

    def answer_run(self, frames: Sequence[memoryview], take_place: TakePlace) -> tuple[int, list[Chunk]]:
        """Read for the first request of `frames`, if all partitions are usual; return 1 and the answer."""
        frame = frames[0]
        try:
            reads, rest = self._parse(frame)
            self._read(reads)
        except (*NOT_KNOWN, KafkaError):
            return NOTHING
        return 1, self._answer_to(_unpack_int(frame, CORRELATION_ID_AT)[0], reads, rest)

    def _parse(self, frame: memoryview) -> tuple[list[_Read], memoryview]:
        """Return what to read, and the bytes behind the last partition that the answer repeats."""
        encoding = self._encoding
        read_count, behind_tags = encoding.read_count, encoding.behind_tags
        repeated_at = PREFIX_AT + len(self.prefix)
        topics, at = read_count(frame, repeated_at)
        reads: list[_Read] = []
        for _ in range(topics):
            topic, at = self._read_topic(frame, at)
            partitions, at = read_count(frame, at)
            if len(reads) + partitions > PARTITIONS_MAX:
                raise Unusual
            for _ in range(partitions):
                index, leader_epoch, offset, max_bytes = self._read_fields(frame, at)
                partition = self._usual_partition(topic, index, leader_epoch, offset)
                reads.append(_Read(frame[repeated_at:at], partition, offset, max_bytes))
                repeated_at = at = at + self._partition.size
            at = behind_tags(frame, at)
        if frame[at:] != self._rest or len({read.partition for read in reads}) != len(reads):
            raise Unusual
        return reads, frame[repeated_at:at]

    def _read_topic(self, frame: memoryview, at: int) -> tuple[str | UUID, int]:
        if self.context.api_version >= FIRST_WITH_IDS:
            return identifier(frame[at : at + _ID_BYTES].tobytes()), at + _ID_BYTES
        size, at = self._encoding.read_name_size(frame, at)
        return text(frame[at : at + size].tobytes()), at + size

    def _read_fields(self, frame: memoryview, at: int) -> tuple[int, int, int, int]:
        """Return index, leader epoch, offset and most bytes of a partition."""
        fields = self._partition.unpack_from(frame, at)
        if len(fields) == 4:
            index, offset, _, max_bytes = fields
            return index, -1, offset, max_bytes
        if len(fields) == 5:
            index, leader_epoch, offset, _, max_bytes = fields
            return index, leader_epoch, offset, max_bytes
        index, leader_epoch, offset, last_fetched_epoch, _, max_bytes, tags = fields
        if last_fetched_epoch >= 0 or tags:
            raise Unusual
        return index, leader_epoch, offset, max_bytes

    def _usual_partition(self, topic: str | UUID, index: int, leader_epoch: int, offset: int) -> Partition:
        """Return a partition that needs no further rules before it is read."""
        partition, access = self._services.partitions.find(topic, index), self.context.access
        log = partition.log
        if (
            (access is not None and partition.topic not in access.readable_topics)
            or partition.followed is not None
            or log.byte_addressed
            or leader_epoch not in (-1, partition.leader_epoch)
            or not log.local_start_offset <= offset <= log.high_watermark
        ):
            raise Unusual
        return partition

    def _read(self, reads: Iterable[_Read]) -> None:
        """Read records up to the limits of the request; raise Unusual if they are fewer than it waits for."""
        request, version = self._request, self.context.api_version
        limit = left = min(request.max_bytes, self._services.fetches.bytes_max)
        for read in reads:
            log = read.partition.log
            if read.offset < log.high_watermark:
                max_bytes = min(read.max_bytes, max(0, left))
                records = read_records(log, read.offset, max_bytes, version, left == limit)
                if records is None:
                    raise Unusual
                read.records = records
                left -= len(records)
        if limit - left < request.min_bytes and request.max_wait_ms > 0:
            raise Unusual

    def _answer_to(self, correlation_id: int, reads: Sequence[_Read], rest: memoryview) -> list[Chunk]:
        pack, before, between, encoding = self._answer.pack, self._before, self._between, self._encoding
        chunks: list[Chunk] = [b"", self._head]
        for read in reads:
            partition, records = read.partition, read.records
            log, size = partition.log, len(records)
            partition.traffic.fetches += 1
            partition.traffic.bytes_out += size
            head = pack(
                partition.index, before, log.high_watermark, log.last_stable_offset, log.log_start_offset, between
            )
            chunks += (read.repeated, head, encoding.count(size), records, encoding.tags)
        chunks += (rest, encoding.tags)
        chunks[0] = _pack_start(4 + sum(map(len, chunks)), correlation_id)
        return list(joined(chunks))


def joined(chunks: Iterable[Any]) -> Iterator[Chunk]:
    """Join small chunks in memory."""
    for is_small, some in groupby(chunks, lambda chunk: isinstance(chunk, Buffer) and len(chunk) < OWN_CHUNK_BYTES_MIN):
        if is_small:
            yield b"".join(some)
        else:
            yield from some


def with_topics(request: FetchRequest, topics: list[FetchTopic]) -> FetchRequest:
    other = copy(request)
    other.topics = topics
    return other


def partition_of(version: int) -> Struct:
    if version >= _FIRST_FLEXIBLE:
        return Struct(">iiqiqiB")
    return Struct(">iiqqi" if version >= _FIRST_WITH_LEADER_EPOCH else ">iqqi")


def answer_form(version: int, encoding: Frames, session_id: int = 0) -> tuple[bytes, Struct, bytes, bytes]:
    """Return what an answer begins with, how that of a partition is packed, and its parts around the offsets."""
    frame = response_codec(FetchResponse.api_key, version).frame
    partition = PartitionData(_INDEX, 0, OFFSET, OFFSET, OFFSET, aborted_transactions=None, records=b"")
    topic = FetchableTopicResponse(partitions=[partition])
    both: list[list[Any]] = [
        frame(0, FetchResponse(session_id=session_id, responses=topics)) for topics in ([], [topic])
    ]
    without, with_topic = (b"".join(chunks)[8:] for chunks in both)
    head, _ = encoding.around_count(without, with_topic)
    _, _, answer = with_topic.partition(_INDEX.to_bytes(4))
    before, _, rest = answer.partition(OFFSET.to_bytes(8) * 3)
    between = rest[: -len(encoding.no_elements + encoding.tags * 3)]
    return head, Struct(f">i{len(before)}sqqq{len(between)}s"), before, between
