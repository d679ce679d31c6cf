"""The metadata log of KRaft's controllers as a follower reads it: offsets, epochs, snapshots, and what is committed.

    state        request to the leader              answer                              next
    -----------  ---------------------------------  ----------------------------------  --------------------------
    fetching     Fetch at `end_offset`              records                             fetching
                                                    diverging epoch                     fetching, from a smaller end
                                                    snapshot id                         snapshot
    snapshot     FetchSnapshot at `position`        a chunk                             snapshot
                                                    the last chunk                      fetching, from its end offset
                                                    SNAPSHOT_NOT_FOUND,                 fetching
                                                    POSITION_OUT_OF_RANGE, damage
    either       any                                leader id or epoch that is newer    fetching, from that leader

Batches are decoded when they are handed out, record by record, so that their reader can give way to other work. Records
are handed out below the high watermark only, and those of a metadata transaction together at its end: what is
handed out never changes. So a divergence above the high watermark drops records that nobody has seen. One below it, or
a record of a newer release, ends the broker: KRaft's own rules are broken, or this release is too old.

A snapshot is handed out in parts, one for each chunk, so that no more than a chunk and a batch of it are in memory.
Its records count once its end is handed out: until then another snapshot may begin, or the log may go on without it.

Source: Kafka's class KafkaRaftClient, KIP-595, KIP-630, KIP-868; the formats are in `wire.messages`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final, cast
from uuid import UUID

import attrs

from pylogbroker.errors import CorruptRecords, PylogbrokerError
from pylogbroker.records import Buffer, LogEntry, complete_entries, entries
from pylogbroker.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData, ReplicaState
from pylogbroker.wire.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    SnapshotChunk,
    SnapshotName,
    SnapshotPartition,
    SnapshotTopic,
)
from pylogbroker.wire.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    MetadataRecord,
    decode_record,
)

TOPIC: Final = "__cluster_metadata"
TOPIC_ID: Final = UUID(int=1)
_BYTES_MAX: Final = 1 << 20
"""Of an answer: its batches are checked in one go."""
_SNAPSHOT_BYTES_MAX: Final = 4 << 30
_BATCH_BYTES_MAX: Final = 32 << 20
"""Of a batch in a snapshot: Kafka's controllers write at most 8 MiB."""
_NO_EPOCH: Final = -1
_SNAPSHOT_FOOTER: Final = 4
_CONTROL_KEY: Final = Struct(">hh")
"""Version and type of a control record."""


class MetadataLogError(PylogbrokerError):
    """The log cannot be followed any more; the message says why, and what to do."""


@attrs.frozen
class CommittedMetadata:
    """Records that belong together, and the offset behind the last one.

    `timestamp_ms` is the largest of them. The records are decoded as they are read: once, and before the next ones are
    asked for. With `is_snapshot` there are none: those of the snapshot's parts replace all before.
    """

    end_offset: int
    records: Iterator[MetadataRecord]
    timestamp_ms: int
    is_snapshot: bool = False


@attrs.frozen
class SnapshotPart:
    """Records of a snapshot of all before `end_offset`.

    The first part begins a snapshot, also if an earlier one has not ended. The records are decoded as those of
    `CommittedMetadata`.
    """

    end_offset: int
    records: Iterator[MetadataRecord]
    is_first: bool


@attrs.frozen
class _Batch:
    """Records that are fetched, but perhaps not committed; none of a control batch."""

    end_offset: int
    epoch: int
    timestamp_ms: int
    entries: tuple[LogEntry, ...]


@attrs.frozen
class _Fetching:
    """The log is read by fetches."""


@attrs.define(eq=False, repr=False)
class _Snapshot:
    """A snapshot on its way: `rest` are the bytes behind the last complete batch."""

    name: SnapshotName
    position: int = 0
    rest: bytes = b""
    newest_ms: int = -1
    """Largest timestamp of the records."""
    has_footer: bool = False

    def take(self, data: bytes) -> list[LogEntry]:
        """Return the batches with records that a chunk completes; raise CorruptRecords or MetadataLogError."""
        whole = self.rest + data
        complete = complete_entries(whole)
        rest = whole[len(complete) :]
        if len(rest) > _BATCH_BYTES_MAX:
            raise MetadataLogError(f"a batch of a metadata snapshot is larger than {_BATCH_BYTES_MAX} bytes")
        taken = []
        for entry in entries(complete):
            if self.has_footer:
                raise CorruptRecords("a metadata snapshot goes on behind its footer")
            entry.check()
            if entry.is_control:
                self.has_footer = _control_type(entry) == _SNAPSHOT_FOOTER
            else:
                self.newest_ms = max(self.newest_ms, entry.max_timestamp)
                taken.append(entry)
        self.position, self.rest = self.position + len(data), rest
        return taken


@attrs.define(eq=False, repr=False)
class _Transactions:
    """Metadata transactions: `_held` are the records of the one that `_is_open`."""

    _is_open: bool = attrs.field(default=False, init=False)
    _held: list[MetadataRecord] = attrs.field(factory=list, init=False)

    def ended(self, records: Iterable[MetadataRecord]) -> Iterator[MetadataRecord]:
        """Yield records, those of a transaction at its end; an aborted one has none. Raise CorruptRecords."""
        for record in records:
            match record:
                case BeginTransactionRecord():
                    if self._is_open:
                        raise CorruptRecords("a metadata transaction begins within another one")
                    self._is_open = True
                case EndTransactionRecord() | AbortTransactionRecord():
                    if not self._is_open:
                        raise CorruptRecords("a metadata transaction ends that has not begun")
                    held, self._held, self._is_open = self._held, [], False
                    if isinstance(record, EndTransactionRecord):
                        yield from held
                case _ if self._is_open:
                    self._held.append(record)
                case _:
                    yield record


@attrs.define(eq=False, repr=False)
class MetadataLog:
    """Follows the log as the observer `replica_id`, a broker.

    `end_offset` is behind the last record that was fetched, `committed_offset` behind the last one handed out.
    """

    _replica_id: int
    _cluster_id: str
    _directory: UUID
    leader_id: int = attrs.field(default=-1, init=False)
    leader_epoch: int = attrs.field(default=_NO_EPOCH, init=False)
    end_offset: int = attrs.field(default=0, init=False)
    committed_offset: int = attrs.field(default=0, init=False)
    high_watermark: int = attrs.field(default=0, init=False)
    _committed_epoch: int = attrs.field(default=0, init=False)
    _pending: deque[_Batch] = attrs.field(factory=deque, init=False)
    _step: _Fetching | _Snapshot = attrs.field(factory=_Fetching, init=False)
    _loaded: list[CommittedMetadata | SnapshotPart] = attrs.field(factory=list, init=False)
    """What is fetched of a snapshot, and not handed out yet."""
    _transactions: _Transactions = attrs.field(factory=_Transactions, init=False)

    @property
    def _last_epoch(self) -> int:
        return self._pending[-1].epoch if self._pending else self._committed_epoch

    def follow_leader(self, leader_id: int, epoch: int) -> bool:
        """Return whether this leader is newer than the known one: the next request goes there."""
        if epoch < self.leader_epoch or (epoch == self.leader_epoch and leader_id in (-1, self.leader_id)):
            return False
        self.leader_id, self.leader_epoch = leader_id, epoch
        self._step = _Fetching()
        return True

    def leader_lost(self) -> None:
        """Forget which controller leads: it does not answer, or is no leader."""
        self.leader_id = -1

    # requests

    def request(self, max_wait_ms: int) -> FetchRequest | FetchSnapshotRequest:
        """Return the next request to the leader."""
        step = self._step
        return self._snapshot_request(step) if isinstance(step, _Snapshot) else self._fetch(max_wait_ms)

    def _fetch(self, max_wait_ms: int) -> FetchRequest:
        partition = FetchPartition(
            0,
            self.leader_epoch,
            self.end_offset,
            self._last_epoch,
            log_start_offset=-1,
            partition_max_bytes=_BYTES_MAX,
            replica_directory_id=self._directory,
            high_watermark=self.high_watermark,  # a newer one is answered at once, without records (KIP-1166)
        )
        return FetchRequest(
            cluster_id=self._cluster_id,
            replica_state=ReplicaState(self._replica_id, -1),
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=_BYTES_MAX,
            topics=[FetchTopic(topic_id=TOPIC_ID, partitions=[partition])],
        )

    def _snapshot_request(self, snapshot: _Snapshot) -> FetchSnapshotRequest:
        partition = SnapshotPartition(0, self.leader_epoch, snapshot.name, snapshot.position, self._directory)
        return FetchSnapshotRequest(self._cluster_id, self._replica_id, _BYTES_MAX, [SnapshotTopic(TOPIC, [partition])])

    # answers

    def fetched(self, answer: PartitionData) -> bool:
        """Take the answer to a fetch without an error; return whether it has the leader's records, or none as yet.

        Raise CorruptRecords or MetadataLogError.
        """
        if answer.snapshot_id.end_offset >= 0:
            self._begin_snapshot(SnapshotName(answer.snapshot_id.end_offset, answer.snapshot_id.epoch))
        elif answer.diverging_epoch.end_offset >= 0:
            self._truncate(answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset)
        else:
            self._append(bytes(cast(Buffer, answer.records or b"")))
            self.high_watermark = max(self.high_watermark, answer.high_watermark)
            return True
        return False

    def chunk_fetched(self, chunk: SnapshotChunk) -> None:
        """Take the answer to a request for a snapshot; raise CorruptRecords or MetadataLogError.

        A damaged snapshot is not handed out any further: it is asked for again.
        """
        snapshot = self._step
        if isinstance(snapshot, _Fetching) or chunk.snapshot_id != snapshot.name or chunk.position != snapshot.position:
            return  # an answer to an earlier request
        try:
            self._take_chunk(snapshot, chunk.size, bytes(cast(Buffer, chunk.unaligned_records)))
        except CorruptRecords:
            self._step, self._loaded = _Fetching(), []
            raise

    def _take_chunk(self, snapshot: _Snapshot, size: int, data: bytes) -> None:
        if not 0 <= size <= _SNAPSHOT_BYTES_MAX:
            raise MetadataLogError(f"a metadata snapshot of {size} bytes is larger than {_SNAPSHOT_BYTES_MAX}")
        if not data and snapshot.position < size:
            raise CorruptRecords("a chunk of a metadata snapshot is empty")
        is_first = snapshot.position == 0
        taken = snapshot.take(data)
        self._loaded = [SnapshotPart(snapshot.name.end_offset, _decoded(taken), is_first)]
        if snapshot.position >= size:
            self._end_snapshot(snapshot)

    def snapshot_gone(self) -> None:
        """Fetch again: the leader does not have the snapshot any more."""
        self._step = _Fetching()

    def _begin_snapshot(self, name: SnapshotName) -> None:
        if name.end_offset < self.committed_offset:
            raise MetadataLogError(
                f"the active controller's log begins behind offset {name.end_offset}, but offset "
                f"{self.committed_offset} was committed before: it belongs to another cluster, or has lost records"
            )
        self._step = _Snapshot(name)

    def _end_snapshot(self, snapshot: _Snapshot) -> None:
        if not snapshot.has_footer or snapshot.rest:
            raise CorruptRecords("a metadata snapshot ends without its footer")
        end = snapshot.name.end_offset
        self._loaded.append(CommittedMetadata(end, iter(()), snapshot.newest_ms, is_snapshot=True))
        self._step, self._transactions, self._pending = _Fetching(), _Transactions(), deque()
        self.end_offset = self.committed_offset = end
        self.high_watermark = max(self.high_watermark, end)
        self._committed_epoch = snapshot.name.epoch

    def _append(self, data: bytes) -> None:
        for entry in entries(complete_entries(data)):
            entry.check()
            if entry.last_offset < self.end_offset:
                continue  # of an earlier request
            if entry.base_offset != self.end_offset or entry.leader_epoch < self._last_epoch:
                raise CorruptRecords(
                    f"a metadata batch is at offset {entry.base_offset} of epoch {entry.leader_epoch}, "
                    f"behind offset {self.end_offset} of epoch {self._last_epoch}"
                )
            held = () if entry.is_control else (entry,)
            self._pending.append(_Batch(entry.next_offset, entry.leader_epoch, entry.max_timestamp, held))
            self.end_offset = entry.next_offset

    def _truncate(self, epoch: int, end_offset: int) -> None:
        """Drop batches that the leader does not have: those of newer epochs, and those behind its end of the epoch."""
        if end_offset < self.committed_offset:
            raise MetadataLogError(
                f"the active controller's log ends at offset {end_offset} in epoch {epoch}, but offset "
                f"{self.committed_offset} was committed before: it belongs to another cluster, or has lost records"
            )
        while self._pending and (self._pending[-1].epoch > epoch or self._pending[-1].end_offset > end_offset):
            self._pending.pop()
        self.end_offset = self._pending[-1].end_offset if self._pending else self.committed_offset

    # what is committed

    def committed(self) -> Iterator[CommittedMetadata | SnapshotPart]:
        """Yield what was committed since the last call. Decoding it may raise CorruptRecords."""
        loaded, self._loaded = self._loaded, []
        yield from loaded
        while self._pending and self._pending[0].end_offset <= self.high_watermark:
            batch = self._pending.popleft()
            self.committed_offset, self._committed_epoch = batch.end_offset, batch.epoch
            records = self._transactions.ended(_decoded(batch.entries))
            yield CommittedMetadata(batch.end_offset, records, batch.timestamp_ms)


def _decoded(log_entries: Iterable[LogEntry]) -> Iterator[MetadataRecord]:
    for entry in log_entries:
        for record in entry.records():
            if record.value is None:
                raise CorruptRecords("a metadata record is null")
            yield decode_record(record.value)


def _control_type(entry: LogEntry) -> int:
    """Return the type of a control batch: that in the key of its first record."""
    record = next(entry.records(), None)
    if record is None or record.key is None or len(record.key) < _CONTROL_KEY.size:
        raise CorruptRecords("a control batch of a metadata snapshot has no type")
    number: int = _CONTROL_KEY.unpack_from(record.key)[1]
    return number
