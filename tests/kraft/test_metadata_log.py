"""The metadata log beside a model of its leaders: what is handed out is what was committed, whole and in order."""

from __future__ import annotations

from random import Random
from uuid import UUID

import pytest

from pylogbroker.errors import CorruptRecords
from pylogbroker.kraft import metadata_log
from pylogbroker.kraft.metadata_log import MetadataLog, MetadataLogError, SnapshotPart
from pylogbroker.records import entries
from pylogbroker.wire.messages.fetch import EpochEndOffset, FetchRequest, PartitionData, SnapshotId
from pylogbroker.wire.messages.fetch_snapshot import FetchSnapshotRequest, SnapshotName
from pylogbroker.wire.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
    NoOpRecord,
    TopicRecord,
)
from tests.kraft.logs import LeaderLog, batch, control_batch, snapshot, visible

DIRECTORY = UUID(int=7)


def follower() -> MetadataLog:
    log = MetadataLog(9, "cluster", DIRECTORY)
    log.follow_leader(1, 1)
    return log


def fetch(log: MetadataLog) -> tuple[int, int]:
    """Return offset and last epoch that the log fetches at."""
    request = log.request(500)
    assert isinstance(request, FetchRequest)
    [partition] = request.topics[0].partitions
    return partition.fetch_offset, partition.last_fetched_epoch


Handed = tuple[int, tuple[MetadataRecord, ...], bool]
"""Offset behind the records, the records, and whether they are a snapshot."""


def handed_out(log: MetadataLog) -> list[Handed]:
    """Return what was committed; a snapshot with the records of its parts."""
    outcome: list[Handed] = []
    parts: list[MetadataRecord] = []
    for committed in log.committed():
        if isinstance(committed, SnapshotPart):
            parts += committed.records
        else:
            records = (*parts, *committed.records)
            outcome.append((committed.end_offset, records, committed.is_snapshot))
            parts.clear()
    return outcome


class Cluster:
    """Leaders whose logs agree up to the high watermark, and a follower that reads from the present one."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.leader = LeaderLog()
        self.epoch = 1
        self.log = follower()
        self.seen: list[MetadataRecord] = []
        self.loaded: list[MetadataRecord] = []
        """Of a snapshot that is not complete."""
        self._names = 0
        self.is_in_transaction = False

    def step(self) -> None:
        self.chance.choice((self.append, self.append, self.commit, self.fetch, self.fetch, self.fail_over, self.trim))()

    def append(self) -> None:
        records: list[MetadataRecord] = []
        for _ in range(self.chance.randint(1, 3)):
            self._names += 1
            records.append(TopicRecord(f"topic-{self._names}", UUID(int=self._names)))
        if self.chance.random() < 0.2:
            end = EndTransactionRecord() if self.chance.random() < 0.6 else AbortTransactionRecord("failed")
            records.insert(
                self.chance.randint(0, len(records)), end if self.is_in_transaction else BeginTransactionRecord()
            )
            self.is_in_transaction = not self.is_in_transaction
        self.leader.append(self.epoch, records)

    def commit(self) -> None:
        ends = [entry.end for entry in self.leader.entries if entry.end > self.leader.high_watermark]
        if ends:
            self.leader.high_watermark = self.chance.choice(ends)

    def fail_over(self) -> None:
        """Another controller leads, which lacks some records that were not committed."""
        kept = [entry for entry in self.leader.entries if entry.end <= self.leader.high_watermark]
        if self.chance.random() < 0.5:
            kept = self.leader.entries[: max(len(kept), self.chance.randint(0, len(self.leader.entries)))]
        self.leader = LeaderLog(list(kept), self.leader.start, self.leader.high_watermark)
        self.is_in_transaction = self._is_open(record for entry in kept for record in entry.records or ())
        self.epoch += self.chance.randint(1, 2)
        self.leader.append(self.epoch, None)
        self.log.follow_leader(self.epoch % 3, self.epoch)

    def trim(self) -> None:
        """The log begins later, with a snapshot of what is committed outside of transactions."""
        if not self._is_open(self.leader.committed()):
            self.leader.start = self.leader.high_watermark

    def fetch(self) -> None:
        request = self.log.request(500)
        if isinstance(request, FetchRequest):
            offset, epoch = fetch(self.log)
            self.log.fetched(self.leader.answer(offset, epoch, self.chance.randint(1, 4)))
        else:
            self.fetch_chunk(request)
        for committed in self.log.committed():
            if isinstance(committed, SnapshotPart):
                self.loaded = ([] if committed.is_first else self.loaded) + list(committed.records)
                continue
            if committed.is_snapshot:
                self.seen = self.loaded
            self.seen = self.seen + list(committed.records)

    def fetch_chunk(self, request: FetchSnapshotRequest) -> None:
        [partition] = request.topics[0].partitions
        if self.chance.random() < 0.1:
            self.log.snapshot_gone()
        else:
            chunk = self.leader.chunk(partition.snapshot_id, partition.position, self.chance.randint(1, 300))
            self.log.chunk_fetched(chunk)

    def check(self) -> None:
        """Check that what was seen is what was committed at the offset that the follower has reached."""
        assert self.log.committed_offset <= self.leader.high_watermark
        assert self.seen == visible(self.leader.committed(self.log.committed_offset))

    @staticmethod
    def _is_open(records: object) -> bool:
        is_open = False
        for record in records:  # type: ignore[attr-defined]
            if isinstance(record, BeginTransactionRecord | EndTransactionRecord | AbortTransactionRecord):
                is_open = isinstance(record, BeginTransactionRecord)
        return is_open


@pytest.mark.parametrize("seed", range(150))
def test_committed_records_are_handed_out_once_and_in_order(seed: int) -> None:
    cluster = Cluster(seed)
    for _ in range(120):
        cluster.step()
        cluster.check()
    cluster.leader.high_watermark = cluster.leader.end
    for _ in range(1000):
        if cluster.log.committed_offset == cluster.leader.high_watermark:
            break
        cluster.fetch()
    cluster.check()
    assert cluster.log.committed_offset == cluster.leader.high_watermark


def test_requests_name_the_high_watermark() -> None:
    """A leader whose high watermark is newer answers at once."""
    cluster = Cluster(1)
    for _ in range(20):
        cluster.step()
    cluster.leader.high_watermark = cluster.leader.end
    for _ in range(1000):
        cluster.fetch()
    request = cluster.log.request(500)
    assert isinstance(request, FetchRequest)
    [partition] = request.topics[0].partitions
    assert partition.high_watermark == cluster.leader.high_watermark > 0


def test_the_first_fetch_is_at_the_start_and_names_who_asks() -> None:
    log = follower()
    request = log.request(500)
    assert isinstance(request, FetchRequest)
    assert (request.cluster_id, request.replica_state.replica_id) == ("cluster", 9)
    [partition] = request.topics[0].partitions
    assert (partition.fetch_offset, partition.last_fetched_epoch, partition.current_leader_epoch) == (0, 0, 1)
    assert partition.replica_directory_id == DIRECTORY


def test_records_above_the_high_watermark_wait() -> None:
    log = follower()
    log.fetched(PartitionData(high_watermark=0, records=batch(0, 1, [NoOpRecord()])))
    assert handed_out(log) == []
    log.fetched(PartitionData(high_watermark=1))
    assert handed_out(log) == [(1, (NoOpRecord(),), False)]


def test_a_transaction_over_several_batches_is_handed_out_at_its_end() -> None:
    log, level = follower(), FeatureLevelRecord("metadata.version", 33)
    log.fetched(PartitionData(high_watermark=2, records=batch(0, 1, [BeginTransactionRecord(), level])))
    assert handed_out(log) == [(2, (), False)]
    log.fetched(PartitionData(high_watermark=4, records=batch(2, 1, [EndTransactionRecord(), NoOpRecord()])))
    assert handed_out(log) == [(4, (level, NoOpRecord()), False)]


def test_batches_of_epochs_that_the_leader_does_not_have_are_dropped() -> None:
    log = follower()
    log.fetched(PartitionData(records=batch(0, 1, [NoOpRecord()]) + batch(1, 3, [NoOpRecord()])))
    assert fetch(log) == (2, 3)
    log.fetched(PartitionData(diverging_epoch=EpochEndOffset(2, 5)))
    assert fetch(log) == (1, 1)


def test_a_leader_without_committed_records_is_an_error() -> None:
    log = follower()
    log.fetched(PartitionData(high_watermark=2, records=batch(0, 1, [NoOpRecord(), NoOpRecord()])))
    handed_out(log)
    with pytest.raises(MetadataLogError, match="was committed before"):
        log.fetched(PartitionData(diverging_epoch=EpochEndOffset(0, 1)))
    with pytest.raises(MetadataLogError, match="was committed before"):
        log.fetched(PartitionData(snapshot_id=SnapshotId(1, 0)))


def test_an_older_leader_is_not_followed() -> None:
    log = follower()
    assert log.follow_leader(2, 5)
    assert not log.follow_leader(1, 4)
    assert not log.follow_leader(2, 5)
    log.leader_lost()
    assert not log.follow_leader(-1, 5)
    assert log.follow_leader(2, 5)


@pytest.mark.parametrize(
    "records",
    [
        batch(1, 1, [NoOpRecord()]),
        batch(0, 1, [NoOpRecord()])[:-1] + b"\1",
        batch(0, 1, [EndTransactionRecord()]),
        batch(0, 1, [BeginTransactionRecord(), BeginTransactionRecord()]),
    ],
    ids=["gap", "checksum", "end without begin", "begin within"],
)
def test_damaged_batches_are_rejected(records: bytes) -> None:
    log = follower()

    def read() -> None:
        log.fetched(PartitionData(high_watermark=10, records=records))
        handed_out(log)

    with pytest.raises(CorruptRecords):
        read()


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda whole: whole[:-20], "without its footer"),
        (lambda whole: whole + control_batch(9, 0, 4), "behind its footer"),
        (lambda whole: whole[:-1] + b"\7", "CRC"),
    ],
)
def test_damaged_snapshots_are_rejected(damage: object, why: str) -> None:
    log = follower()
    log.fetched(PartitionData(snapshot_id=SnapshotId(20, 1)))
    whole = damage(snapshot([NoOpRecord()] * 4))  # type: ignore[operator]
    leader = LeaderLog()
    chunk = leader.chunk(SnapshotName(20, 1), 0, 0)
    chunk.size, chunk.unaligned_records = len(whole), whole
    with pytest.raises(CorruptRecords, match=why):
        log.chunk_fetched(chunk)


def test_a_damaged_snapshot_is_asked_for_again_from_its_start() -> None:
    log = follower()
    log.fetched(PartitionData(snapshot_id=SnapshotId(20, 1)))
    leader = LeaderLog(snapshots={20: snapshot([NoOpRecord()] * 9)})
    log.chunk_fetched(leader.chunk(SnapshotName(20, 1), 0, 150))
    assert len(list(log.committed())) == 1
    damaged = leader.chunk(SnapshotName(20, 1), 150, 1000)
    damaged.unaligned_records = bytes(1000)
    with pytest.raises(CorruptRecords):
        log.chunk_fetched(damaged)
    assert fetch(log) == (0, 0)
    assert list(log.committed()) == []
    log.fetched(PartitionData(snapshot_id=SnapshotId(20, 1)))
    request = log.request(500)
    assert isinstance(request, FetchSnapshotRequest)
    assert request.topics[0].partitions[0].position == 0


def test_a_snapshot_is_handed_out_chunk_by_chunk() -> None:
    log = follower()
    log.fetched(PartitionData(snapshot_id=SnapshotId(20, 1)))
    records: list[MetadataRecord] = [TopicRecord(f"topic-{number}", UUID(int=number)) for number in range(500)]
    leader, parts, position = LeaderLog(snapshots={20: snapshot(records)}), list[SnapshotPart](), 0
    seen: list[MetadataRecord] = []
    while True:
        chunk = leader.chunk(SnapshotName(20, 1), position, 1000)
        position += len(chunk.unaligned_records or b"")
        log.chunk_fetched(chunk)
        part, *end = log.committed()
        assert isinstance(part, SnapshotPart)
        parts.append(part)
        seen += part.records
        if end:
            break
        assert log.committed_offset == 0
        assert len(seen) <= len(parts) * 1000 // 40
    assert seen == records
    assert [part.is_first for part in parts] == [True] + [False] * (len(parts) - 1)
    assert len(parts) > 20
    assert [(committed.end_offset, list(committed.records)) for committed in end] == [(20, [])]
    assert log.committed_offset == 20


def restored() -> MetadataLog:
    """Return a log that has stored two batches of epoch 5, of time 1000."""
    log = MetadataLog(9, "cluster", DIRECTORY)
    stored = control_batch(0, 1, 2) + batch(1, 5, [NoOpRecord()])
    log.restore(None, list(entries(stored)), 5)
    return log


def test_a_leader_of_an_earlier_epoch_is_compared_by_its_first_batch() -> None:
    log = restored()
    assert not log.follow_leader(1, 2)
    assert log.may_compare(2)
    log.compare_with(1, 2)
    request = log.request(500)
    assert isinstance(request, FetchRequest)
    [partition] = request.topics[0].partitions
    assert (partition.current_leader_epoch, partition.fetch_offset, partition.last_fetched_epoch) == (2, 0, 0)
    log.fetched(PartitionData(high_watermark=1, records=control_batch(0, 2, 2, 1001)))
    assert (log.leader_id, log.leader_epoch, log.end_offset) == (1, 2, 0)
    log.fetched(PartitionData(high_watermark=1, records=control_batch(0, 2, 2, 1001)))
    assert [end for end, _, _ in handed_out(log)] == [1]


@pytest.mark.parametrize(
    "answer",
    [
        PartitionData(high_watermark=1, records=control_batch(0, 1, 2)),
        PartitionData(high_watermark=1, records=control_batch(4, 1, 2, 1001)),
        PartitionData(high_watermark=1),
        PartitionData(snapshot_id=SnapshotId(20, 1)),
        PartitionData(diverging_epoch=EpochEndOffset(0, 0)),
    ],
    ids=["as old", "not the first", "none", "snapshot", "diverging"],
)
def test_a_leader_of_an_earlier_epoch_with_an_older_log_changes_nothing(answer: PartitionData) -> None:
    log = restored()
    log.compare_with(1, 2)
    assert not log.fetched(answer)
    assert (log.leader_id, log.leader_epoch, log.end_offset) == (-1, 5, 2)
    assert fetch(log) == (2, 5)
    assert handed_out(log) == []


def test_nothing_is_compared_when_records_were_handed_out() -> None:
    log = restored()
    log.follow_leader(1, 5)
    log.fetched(PartitionData(high_watermark=2))
    assert not log.may_compare(3)


def test_a_newer_leader_ends_the_comparison() -> None:
    log = restored()
    log.compare_with(1, 2)
    log.follow_leader(2, 6)
    assert fetch(log) == (2, 5)


def test_a_batch_of_a_snapshot_that_is_too_large_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_log, "_BATCH_BYTES_MAX", 500)
    log = follower()
    log.fetched(PartitionData(snapshot_id=SnapshotId(20, 1)))
    large = batch(0, 0, [TopicRecord("x" * 200, UUID(int=number)) for number in range(5)])
    with pytest.raises(MetadataLogError, match="larger than 500 bytes"):
        log.chunk_fetched(LeaderLog(snapshots={20: large}).chunk(SnapshotName(20, 1), 0, 600))
