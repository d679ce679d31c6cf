"""Committed records of partitions, as JSON: below the last stable offset, without those of aborted transactions.

    here         the log is read as for a fetch; parts that are not in memory are brought by worker threads
    elsewhere    the leader is asked by a fetch request between brokers

A worker thread decodes records, and makes JSON of them. With a schema store, their schemas are loaded before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Final, Protocol

import attrs

from pylogbroker.broker.fetch.readahead import read_ahead
from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.broker.services import Services
from pylogbroker.errors import ErrorCode, KafkaError, OffsetOutOfRange
from pylogbroker.metadata.image import NO_LEADER
from pylogbroker.records import Buffer, LogEntry, Record, entries
from pylogbroker.rpc.answer_rows import sole_row
from pylogbroker.rpc.errors import code_of
from pylogbroker.storage import NotCached
from pylogbroker.web.partition_logs import FetchedRecords
from pylogbroker.web.record_rows import RecordRegion
from pylogbroker.web.records_api.json_records import Format, record_text
from pylogbroker.web.schema_store import SchemaKey, SchemaStore, frames_of
from pylogbroker.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pylogbroker.wire.messages.list_offsets import EARLIEST, ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

REGION_BYTES: Final = 64 * 1024
"""Bytes that are read at once, unless a batch has more."""

_FETCH_VERSION: Final = 11
"""Brokers of the cluster may be old."""
_READ_COMMITTED: Final = 1
_LIST_OFFSETS_VERSION: Final = 2
_INFLATED_BYTES_MAX: Final = 16 * 1024 * 1024
_Aborted = Sequence[tuple[int, int]]
"""Producers, and the first offsets of their aborted transactions."""


@attrs.frozen
class JsonPiece:
    """Records of a partition as JSON, and the offset to go on from; `size` are bytes of the log."""

    partition: int
    texts: Sequence[str]
    next_offset: int
    size: int


@attrs.frozen
class _Region:
    """Records as a log has them. Offsets up to `end` are empty behind them."""

    records: RecordRegion
    aborted: _Aborted


class CommittedLog(Protocol):
    """Log of a partition, read up to its last stable offset."""

    @property
    def partition(self) -> Partition | None:
        """Partition whose rise is news; None if another broker leads."""

    async def read(self, offset: int, upto: int, size: int) -> _Region | None: ...

    async def start(self) -> int:
        """Return the first offset; raise KafkaError."""


@attrs.frozen(eq=False, repr=False)
class LedCommittedLog:
    _services: Services
    partition: Partition

    async def read(self, offset: int, upto: int, size: int) -> _Region | None:
        log = self.partition.log
        while offset < upto:
            try:  # `upto` may be within a batch
                region = log.read(offset, size, upto=log.last_stable_offset, may_wait=False)
                if region is None:
                    return None
                aborted = log.aborted_transactions(offset, region.next_offset, may_wait=False)
            except NotCached as missing:
                await self._services.runtime.in_reading_thread(read_ahead, missing.region)
            except OffsetOutOfRange:
                start, end = log.log_start_offset, log.last_stable_offset
                raise out_of_range(self.partition.topic, self.partition.index, offset, start, end) from None
            else:
                return _Region(region, [(transaction[0], transaction[1]) for transaction in aborted])
        return None

    async def start(self) -> int:
        return self.partition.log.log_start_offset


@attrs.frozen(eq=False, repr=False)
class RemoteCommittedLog:
    _services: Services
    _topic: str
    _index: int
    _leader: int

    @property
    def partition(self) -> None:
        return None

    async def read(self, offset: int, upto: int, size: int) -> _Region | None:
        if offset >= upto:
            return None
        partition = FetchPartition(self._index, fetch_offset=offset, partition_max_bytes=size)
        topics = [FetchTopic(self._topic, partitions=[partition])]
        request = FetchRequest(max_bytes=size, isolation_level=_READ_COMMITTED, topics=topics)
        answer = await self._services.peers.send(self._leader, request, _FETCH_VERSION)
        self._check(answer.error_code)
        row = sole_row(answer, "responses.partitions", self._leader, partition_index=self._index)
        if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            raise out_of_range(self._topic, self._index, offset, None, None)
        self._check(row.error_code)
        fetched = FetchedRecords(row.records or b"")
        if not fetched.data or fetched.next_offset <= offset:
            return None
        return _Region(fetched, [(row.producer_id, row.first_offset) for row in row.aborted_transactions or ()])

    async def start(self) -> int:
        topics = [ListOffsetsTopic(self._topic, [ListOffsetsPartition(self._index, timestamp=EARLIEST)])]
        answer = await self._services.peers.send(self._leader, ListOffsetsRequest(-1, 0, topics), _LIST_OFFSETS_VERSION)
        row = sole_row(answer, "topics.partitions", self._leader, partition_index=self._index)
        self._check(row.error_code)
        return int(row.offset)

    def _check(self, number: int) -> None:
        if number:
            code, where = code_of(number), f"records of {self._topic}-{self._index} at broker {self._leader}"
            raise KafkaError(f"{where}: {code.meaning}", code)


def out_of_range(topic: str, index: int, offset: int, start: int | None, end: int | None) -> KafkaError:
    """Return the error of an offset that a partition does not have; None stands for what is not known."""
    has, first = "", ""
    if end is not None:
        has = f": it ends at {end}" if start is None else f": it has offsets from {start} to {end}"
    if start is not None:
        first = f"{index}:{start}, which is its first record now, or "
    return KafkaError(
        f"offset {offset} of {topic}-{index} is not there{has}. Go on with from={first}earliest or latest",
        ErrorCode.OFFSET_OUT_OF_RANGE,
    )


def committed_log(services: Services, topic: str, index: int) -> CommittedLog:
    """Return the log of a partition; raise KafkaError."""
    state = services.metadata.require_topic(topic).partitions.get(index)
    if state is None:
        raise KafkaError(f"{topic} has no partition {index}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if (topic, index) not in services.partitions.led and state.leader not in (NO_LEADER, services.node.id):
        return RemoteCommittedLog(services, topic, index, state.leader)
    partition = services.partitions.find(topic, index)
    if partition.log.byte_addressed:
        raise KafkaError("topics of Kafka 0.7 cannot be read here", ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT)
    return LedCommittedLog(services, partition)


async def first_offset(services: Services, topic: str, index: int) -> int:
    """Return the offset of the first record of a partition; raise KafkaError."""
    return await committed_log(services, topic, index).start()


@attrs.frozen
class MemberForm:
    """Form of keys and values; a schema store decodes those that name a schema."""

    format: Format
    schemas: SchemaStore | None = None

    def text(self, topic: str, partition: int, record: Record) -> str:
        """Return a record as JSON in one line. Blocks."""
        if self.schemas is None:
            return record_text(partition, record, self.format)
        frames = frames_of(record.key, record.value, record.headers)
        decoded = {field: self.schemas.decoded(topic, field, frame) for field, frame in frames.items()}
        return record_text(partition, record, self.format, decoded)


@attrs.frozen
class PieceSelection:
    """Records of a partition from an offset to below `upto`: at most so many, or so many characters of JSON."""

    partition: int
    offset: int
    upto: int
    records_max: int
    characters_max: int
    form: MemberForm


async def read_piece(
    services: Services, topic: str, selection: PieceSelection, size: int = REGION_BYTES
) -> JsonPiece | None:
    """Return the next records, perhaps none of a part without any; None at the end. Raise KafkaError."""
    log = committed_log(services, topic, selection.partition)
    region = await log.read(selection.offset, selection.upto, size)
    if region is None:
        return None
    schemas = selection.form.schemas
    if schemas is not None:
        await schemas.load(await services.runtime.in_reading_thread(_schemas_of, region, selection))
    piece: JsonPiece = await services.runtime.in_reading_thread(_decode, topic, region, selection)
    if log.partition is not None:
        log.partition.traffic.fetches += 1
        log.partition.traffic.bytes_out += piece.size
    return piece


def _schemas_of(region: _Region, selection: PieceSelection) -> list[SchemaKey]:
    """Return the schemas that the contents of records name, up to damage. Blocks."""
    keys: list[SchemaKey] = []
    with suppress(KafkaError):
        for record in islice(_records(region.records.read(), region.aborted, selection), selection.records_max):
            keys += (frame.schema for frame in frames_of(record.key, record.value, record.headers).values())
    return keys


def _decode(topic: str, region: _Region, selection: PieceSelection) -> JsonPiece:
    """Read a region, and make JSON of its records. Blocks. Raise KafkaError for damage at its begin."""
    data = region.records.read()
    size = len(data)
    texts: list[str] = []
    characters = 0
    next_offset = selection.offset
    try:
        for record in _records(data, region.aborted, selection):
            if len(texts) >= selection.records_max or characters > selection.characters_max:
                return JsonPiece(selection.partition, texts, next_offset, size)
            text = selection.form.text(topic, selection.partition, record)
            texts.append(text)
            characters += len(text)
            next_offset = record.offset + 1
    except KafkaError as error:
        if not texts:
            where = f"partition {selection.partition} is damaged at or behind offset {next_offset}"
            raise KafkaError(f"{where}: {error}. Go on behind the damage with from=", error.code) from None
        return JsonPiece(selection.partition, texts, next_offset, size)
    next_offset = min(selection.upto, max(next_offset, region.records.next_offset))
    return JsonPiece(selection.partition, texts, next_offset, size)


def _records(data: Buffer, aborted: _Aborted, selection: PieceSelection) -> Iterator[Record]:
    """Yield the records of a region that are selected by their offsets; raise KafkaError for damage."""
    for entry in _visible(entries(data, partial=True), aborted):
        for record in entry.records(_INFLATED_BYTES_MAX):
            if record.offset >= selection.upto:
                return
            if record.offset >= selection.offset:
                yield record


def _visible(all_entries: Iterable[LogEntry], aborted: _Aborted) -> Iterable[LogEntry]:
    """Yield the entries with records that readers of committed records see."""
    waiting = deque(sorted(aborted, key=lambda transaction: transaction[1]))
    hidden: set[int] = set()
    for entry in all_entries:
        while waiting and waiting[0][1] <= entry.last_offset:
            hidden.add(waiting.popleft()[0])
        if entry.is_control:
            marker: Any = entry.marker
            if marker is not None and not marker.committed:
                hidden.discard(entry.producer_id)
        elif not (entry.is_transactional and entry.producer_id in hidden):
            yield entry
