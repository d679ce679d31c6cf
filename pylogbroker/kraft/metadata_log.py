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
    comparing    Fetch at offset 0                  records                             fetching, perhaps from offset 0
                                                    anything else                       fetching
    any          any                                leader id or epoch that is newer    fetching, from that leader

A `MetadataStore` keeps what was fetched, and a later start begins with it: `restore`. A leader must confirm these
records before they are handed out. It does so when it answers a fetch at their end with records or none, and knows the
high watermark. Until then, a leader that does not have them only makes the log begin again.

A leader of an earlier epoch is not followed: it may be one that has not heard of the others. But if its first batch is
younger than all that was restored, the controllers were formatted again, with the same cluster id. Then the log begins
again, too (`comparing`).

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
from typing import Final, cast
from uuid import UUID

import attrs

from pylogbroker.errors import CorruptRecords, PylogbrokerError
from pylogbroker.kraft.metadata_store import MetadataStore, NoStore
from pylogbroker.records import Buffer, LogEntry, complete_entries, control, entries
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


@attrs.frozen
class _Comparing:
    """The first batch of a leader of an earlier epoch is read."""

    leader_id: int
    epoch: int


@attrs.define(eq=False, repr=False)
class SnapshotContent:
    """Batches of a snapshot's bytes, which come in chunks; control batches are left out."""

    batches: list[LogEntry] = attrs.field(factory=list, init=False)
    """All of them, if the snapshot came whole."""
    max_timestamp: int = attrs.field(default=-1, init=False)
    _rest: bytes = attrs.field(default=b"", init=False)
    """Bytes behind the last complete batch."""
    _has_footer: bool = attrs.field(default=False, init=False)

    @classmethod
    def of(cls, data: bytes) -> SnapshotContent:
        """Return that of a whole snapshot; raise CorruptRecords or MetadataLogError."""
        content = cls()
        content.batches = content.take(data)
        content.end()
        return content

    def take(self, data: bytes) -> list[LogEntry]:
        """Return the batches that the next bytes complete; raise CorruptRecords or MetadataLogError."""
        whole = self._rest + data
        complete = complete_entries(whole)
        self._rest = whole[len(complete) :]
        if len(self._rest) > _BATCH_BYTES_MAX:
            raise MetadataLogError(f"a batch of a metadata snapshot is larger than {_BATCH_BYTES_MAX} bytes")
        taken = []
        for entry in entries(complete):
            if self._has_footer:
                raise CorruptRecords("a metadata snapshot goes on behind its footer")
            entry.check()
            if entry.is_control:
                self._has_footer = _control_type(entry) == control.SNAPSHOT_FOOTER
            else:
                self.max_timestamp = max(self.max_timestamp, entry.max_timestamp)
                taken.append(entry)
        return taken

    def end(self) -> None:
        """Check that nothing is missing; raise CorruptRecords."""
        if not self._has_footer or self._rest:
            raise CorruptRecords("a metadata snapshot ends without its footer")


@attrs.define(eq=False, repr=False)
class _Snapshot:
    """A snapshot on its way."""

    name: SnapshotName
    position: int = 0
    content: SnapshotContent = attrs.field(factory=SnapshotContent)


@attrs.define(eq=False, repr=False)
class _Transactions:
    """Metadata transactions: `_held` are the records of the one that `_is_open`."""

    _is_open: bool = attrs.field(default=False, init=False)
    _held: list[MetadataRecord] = attrs.field(factory=list, init=False)

    @property
    def is_open(self) -> bool:
        return self._is_open

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

    `end_offset` is behind the last record that was fetched, `committed_offset` behind the last one handed out, and
    `whole_offset` behind the last one of those that no transaction holds back.
    """

    replica_id: int
    _cluster_id: str
    _directory: UUID
    _store: MetadataStore = attrs.field(factory=NoStore)
    leader_id: int = attrs.field(default=-1, init=False)
    leader_epoch: int = attrs.field(default=_NO_EPOCH, init=False)
    end_offset: int = attrs.field(default=0, init=False)
    committed_offset: int = attrs.field(default=0, init=False)
    high_watermark: int = attrs.field(default=0, init=False)
    whole_offset: int = attrs.field(default=0, init=False)
    whole_epoch: int = attrs.field(default=0, init=False)
    """Epoch of the record before `whole_offset`."""
    is_confirmed: bool = attrs.field(default=False, init=False)
    """A leader has the records, and knows which are committed."""
    _restored_ms: int = attrs.field(default=0, init=False)
    """Newest timestamp of what was restored; 0 if it has none."""
    _committed_epoch: int = attrs.field(default=0, init=False)
    _pending: deque[_Batch] = attrs.field(factory=deque, init=False)
    _step: _Fetching | _Snapshot | _Comparing = attrs.field(factory=_Fetching, init=False)
    _restored: list[CommittedMetadata | SnapshotPart] = attrs.field(factory=list, init=False)
    """A stored snapshot that is not handed out yet."""
    _loaded: list[CommittedMetadata | SnapshotPart] = attrs.field(factory=list, init=False)
    """Parts of a snapshot that are not handed out yet. They need no confirmation: they came from a leader."""
    _transactions: _Transactions = attrs.field(factory=_Transactions, init=False)

    @property
    def _last_epoch(self) -> int:
        return self._pending[-1].epoch if self._pending else self._committed_epoch

    def restore(
        self, snapshot: tuple[SnapshotName, SnapshotContent] | None, batches: Iterable[LogEntry], leader_epoch: int
    ) -> None:
        """Begin with what an earlier life has stored: a snapshot, and the batches behind it."""
        if snapshot is not None:
            name, content = snapshot
            records = _decoded(content.batches)
            self._restored = [SnapshotPart(name.end_offset, records, is_first=True), _end_of(name, content)]
            self._restored_ms = max(0, content.max_timestamp)
            self._go_on_from(name)
        for entry in batches:
            self._restored_ms = max(self._restored_ms, entry.max_timestamp)
            self._pend(entry)
        self.leader_epoch = leader_epoch

    def follow_leader(self, leader_id: int, epoch: int) -> bool:
        """Return whether this leader is newer than the known one: the next request goes there."""
        if epoch < self.leader_epoch or (epoch == self.leader_epoch and leader_id in (-1, self.leader_id)):
            return False
        self._follow(leader_id, epoch)
        return True

    def _follow(self, leader_id: int, epoch: int) -> None:
        self.leader_id, self.leader_epoch = leader_id, epoch
        self._step = _Fetching()
        self._store.follow_leader(leader_id, epoch)

    def may_compare(self, epoch: int) -> bool:
        """Return whether the log of a leader of this epoch, an earlier one, may be another log than the restored."""
        return 0 <= epoch < self.leader_epoch and self._restored_ms > 0 and not self.is_confirmed

    def compare_with(self, leader_id: int, epoch: int) -> None:
        """Read the first batch of a leader's log next: `may_compare` is true of its epoch."""
        self._step = _Comparing(leader_id, epoch)

    @property
    def is_comparing(self) -> bool:
        return isinstance(self._step, _Comparing)

    def leader_lost(self) -> None:
        """Forget which controller leads: it does not answer, or is no leader."""
        self.leader_id = -1
        if self.is_comparing:
            self._step = _Fetching()

    # requests

    def request(self, max_wait_ms: int) -> FetchRequest | FetchSnapshotRequest:
        """Return the next request to the leader."""
        match self._step:
            case _Snapshot() as snapshot:
                return self._snapshot_request(snapshot)
            case _Comparing(_, epoch):
                return self._fetch(epoch, 0, 0, max_wait_ms)
        return self._fetch(self.leader_epoch, self.end_offset, self._last_epoch, max_wait_ms)

    def _fetch(self, leader_epoch: int, offset: int, last_epoch: int, max_wait_ms: int) -> FetchRequest:
        partition = FetchPartition(
            0,
            leader_epoch,
            offset,
            last_epoch,
            log_start_offset=-1,
            partition_max_bytes=_BYTES_MAX,
            replica_directory_id=self._directory,
            high_watermark=self.high_watermark,  # a newer one is answered at once, without records (KIP-1166)
        )
        return FetchRequest(
            cluster_id=self._cluster_id,
            replica_state=ReplicaState(self.replica_id, -1),
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=_BYTES_MAX,
            topics=[FetchTopic(topic_id=TOPIC_ID, partitions=[partition])],
        )

    def _snapshot_request(self, snapshot: _Snapshot) -> FetchSnapshotRequest:
        partition = SnapshotPartition(0, self.leader_epoch, snapshot.name, snapshot.position, self._directory)
        return FetchSnapshotRequest(self._cluster_id, self.replica_id, _BYTES_MAX, [SnapshotTopic(TOPIC, [partition])])

    # answers

    def fetched(self, answer: PartitionData) -> bool:
        """Take the answer to a fetch without an error; return whether the log is the leader's up to its end.

        False, too, for a new leader that does not know yet what is committed. Raise CorruptRecords or MetadataLogError.
        """
        if isinstance(self._step, _Comparing):
            self._compare(self._step, answer)
        elif answer.snapshot_id.end_offset >= 0:
            self._begin_snapshot(SnapshotName(answer.snapshot_id.end_offset, answer.snapshot_id.epoch))
        elif answer.diverging_epoch.end_offset >= 0:
            self._truncate(answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset)
        else:
            self._append(bytes(cast(Buffer, answer.records or b"")))
            self.high_watermark = max(self.high_watermark, answer.high_watermark)
            self.is_confirmed |= answer.high_watermark >= self.committed_offset
            return answer.high_watermark >= 0 and self.is_confirmed
        return False

    def chunk_fetched(self, chunk: SnapshotChunk) -> None:
        """Take the answer to a request for a snapshot; raise CorruptRecords or MetadataLogError.

        A damaged snapshot is not handed out any further: it is asked for again.
        """
        snapshot = self._step
        if (
            not isinstance(snapshot, _Snapshot)
            or chunk.snapshot_id != snapshot.name
            or chunk.position != snapshot.position
        ):
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
        is_first, is_last = not snapshot.position, snapshot.position + len(data) >= size
        taken = snapshot.content.take(data)
        if is_last:
            snapshot.content.end()
        self._loaded = [SnapshotPart(snapshot.name.end_offset, _decoded(taken), is_first)]
        self._store.snapshot_part(snapshot.name, snapshot.position, data)
        snapshot.position += len(data)
        if is_last:
            self._end_snapshot(snapshot)

    def snapshot_gone(self) -> None:
        """Fetch again: the leader does not have the snapshot any more."""
        self._step = _Fetching()

    def _begin_snapshot(self, name: SnapshotName) -> None:
        if name.end_offset < self.committed_offset:
            self._lost(f"begins behind offset {name.end_offset}")
        self._step = _Snapshot(name)

    def _end_snapshot(self, snapshot: _Snapshot) -> None:
        self._loaded.append(_end_of(snapshot.name, snapshot.content))
        self._step, self._transactions, self._pending, self._restored = _Fetching(), _Transactions(), deque(), []
        self._go_on_from(snapshot.name)
        self.high_watermark = max(self.high_watermark, self.end_offset)
        self.is_confirmed = True
        self._store.replace(snapshot.name)

    def _go_on_from(self, name: SnapshotName) -> None:
        """Fetch behind a snapshot from now on."""
        self.end_offset = self.committed_offset = self.whole_offset = name.end_offset
        self._committed_epoch = self.whole_epoch = name.epoch

    def _lost(self, why: str) -> None:
        """Begin again without what was stored; raise MetadataLogError if some of it was handed out."""
        problem = f"the active controller's log {why}, but offset {self.committed_offset} was committed before"
        if self.is_confirmed:
            raise MetadataLogError(f"{problem}: it belongs to another cluster, or has lost records")
        self._begin_again(problem)

    def _compare(self, step: _Comparing, answer: PartitionData) -> None:
        """Begin again, behind this leader, if its log was begun after the records that were restored."""
        self._step = _Fetching()
        first = next(entries(complete_entries(bytes(cast(Buffer, answer.records or b"")))), None)
        if first is None or first.base_offset or answer.snapshot_id.end_offset >= 0:
            return
        first.check()
        if first.max_timestamp > self._restored_ms:
            why = (
                f"the controllers were formatted again: they are at epoch {step.epoch}, and their log is younger than "
                f"its records of epoch {self.leader_epoch}"
            )
            self._follow(step.leader_id, step.epoch)  # stored first: a start in between finds the records, and compares
            self._begin_again(why)

    def _begin_again(self, why: str) -> None:
        """Forget what was restored; nothing of it was handed out."""
        self._pending, self._restored = deque(), []
        self.end_offset = self.committed_offset = self.whole_offset = 0
        self._committed_epoch = self.whole_epoch = self._restored_ms = 0
        self._store.clear(why)

    def _append(self, data: bytes) -> None:
        appended: list[LogEntry] = []
        try:
            for entry in entries(complete_entries(data)):
                entry.check()
                if entry.last_offset < self.end_offset:
                    continue  # of an earlier request
                if entry.base_offset != self.end_offset or entry.leader_epoch < self._last_epoch:
                    raise CorruptRecords(
                        f"a metadata batch is at offset {entry.base_offset} of epoch {entry.leader_epoch}, "
                        f"behind offset {self.end_offset} of epoch {self._last_epoch}"
                    )
                self._pend(entry)
                appended.append(entry)
        finally:
            if appended:
                self._store.append(appended)

    def _pend(self, entry: LogEntry) -> None:
        """Hold a batch until it is committed."""
        held = () if entry.is_control else (entry,)
        self._pending.append(_Batch(entry.next_offset, entry.leader_epoch, entry.max_timestamp, held))
        self.end_offset = entry.next_offset

    def _truncate(self, epoch: int, end_offset: int) -> None:
        """Drop batches that the leader does not have: those of newer epochs, and those behind its end of the epoch."""
        if end_offset < self.committed_offset:
            self._lost(f"ends at offset {end_offset} in epoch {epoch}")
            return
        while self._pending and (self._pending[-1].epoch > epoch or self._pending[-1].end_offset > end_offset):
            self._pending.pop()
        self.end_offset = self._pending[-1].end_offset if self._pending else self.committed_offset
        self._store.cut(self.end_offset)

    # what is committed

    def committed(self) -> Iterator[CommittedMetadata | SnapshotPart]:
        """Yield what was committed since the last call. Decoding it may raise CorruptRecords."""
        loaded, self._loaded = self._loaded, []
        yield from loaded
        if not self.is_confirmed:
            return
        restored, self._restored = self._restored, []
        yield from restored
        while self._pending and self._pending[0].end_offset <= self.high_watermark:
            batch = self._pending.popleft()
            self.committed_offset, self._committed_epoch = batch.end_offset, batch.epoch
            records = self._transactions.ended(_decoded(batch.entries))
            yield CommittedMetadata(batch.end_offset, records, batch.timestamp_ms)
            if not self._transactions.is_open:
                self.whole_offset, self.whole_epoch = batch.end_offset, batch.epoch


def _end_of(name: SnapshotName, content: SnapshotContent) -> CommittedMetadata:
    return CommittedMetadata(name.end_offset, iter(()), content.max_timestamp, is_snapshot=True)


def _decoded(log_entries: Iterable[LogEntry]) -> Iterator[MetadataRecord]:
    for entry in log_entries:
        for record in entry.records():
            if record.value is None:
                raise CorruptRecords("a metadata record is null")
            yield decode_record(record.value)


def _control_type(entry: LogEntry) -> int:
    """Return the type of a control batch: that of its first record."""
    record = next(entry.records(), None)
    if record is None:
        raise CorruptRecords("a control batch of a metadata snapshot has no records")
    return control.control_type(record)
