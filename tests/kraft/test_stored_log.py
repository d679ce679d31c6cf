"""The metadata log with a copy on disk: lives of a member that end in order or at any system call, beside leaders."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from unittest.mock import patch
from uuid import UUID

import attrs
import pytest

from pylogbroker.errors import StartupError
from pylogbroker.kraft.compaction import compacted
from pylogbroker.kraft.metadata_log import MetadataLog, MetadataLogError, SnapshotContent, SnapshotPart
from pylogbroker.records import LogEntry
from pylogbroker.storage.metadata.directory import MetadataDirectory, SnapshotPlace, StoredMetadata
from pylogbroker.wire.messages.fetch import EpochEndOffset, PartitionData, SnapshotId
from pylogbroker.wire.messages.fetch_snapshot import SnapshotName
from pylogbroker.wire.metadata_records import NoOpRecord, TopicRecord
from tests.kraft.logs import LeaderLog, batch, snapshot
from tests.kraft.test_metadata_log import Cluster, fetch, handed_out

SEGMENT_BYTES = 400
"""Of two or three batches."""
_CALLS = ("replace", "unlink", "pwritev", "ftruncate", "truncate", "fsync", "open")


class ProcessEnds(BaseException):
    """The process ends at a system call."""


@contextmanager
def ending_at(call: int, chance: Random) -> Iterator[None]:
    """Let the process end before the system call of that number; a write may have written some bytes."""
    calls = 0

    def counted(name: str) -> object:
        real = getattr(os, name)

        def stand_in(*arguments: object, **others: object) -> object:
            nonlocal calls
            calls += 1
            if calls > call:
                if name == "pwritev" and calls == call + 1:
                    fd, [data, *_], position = arguments  # type: ignore[misc]
                    real(fd, [data[: chance.randint(0, len(data))]], position)
                raise ProcessEnds
            return real(*arguments, **others)

        return stand_in

    with patch.multiple(os, **{name: counted(name) for name in _CALLS}):
        yield


@attrs.define
class DirectStore:
    """Carries out each change at once, in the caller's thread."""

    directory: MetadataDirectory
    cleared: list[str] = attrs.field(factory=list)

    def append(self, batches: Sequence[LogEntry]) -> None:
        self.directory.append(batches)

    def cut(self, offset: int) -> None:
        self.directory.cut(offset)

    def clear(self, why: str) -> None:
        self.cleared.append(why)
        self.directory.clear()

    def snapshot_part(self, name: SnapshotName, position: int, data: bytes) -> None:
        self.directory.write_part(SnapshotPlace(name.end_offset, name.epoch), position, data)

    def replace(self, name: SnapshotName) -> None:
        self.directory.replace_log(SnapshotPlace(name.end_offset, name.epoch))

    def follow_leader(self, leader_id: int, epoch: int) -> None:
        self.directory.follow_leader(leader_id, epoch)


def directory_at(path: Path) -> MetadataDirectory:
    return MetadataDirectory(str(path), "cluster", SEGMENT_BYTES)


@attrs.define
class Life:
    """One life of a member: a log that begins with what the directory has."""

    log: MetadataLog
    store: DirectStore
    stored: StoredMetadata[SnapshotContent]

    @classmethod
    def begin(cls, path: Path) -> Life:
        store = DirectStore(directory_at(path))
        stored = store.directory.load(SnapshotContent.of)
        log = MetadataLog(9, "cluster", UUID(int=7), store)
        first = None
        if stored.snapshot is not None:
            place, content = stored.snapshot
            first = SnapshotName(place.end_offset, place.epoch), content
        log.restore(first, stored.batches, stored.leader_epoch)
        return cls(log, store, stored)

    def end(self) -> None:
        """End without another system call but those of closed files."""
        self.store.directory.release()

    def take_snapshot(self) -> None:
        place, directory = SnapshotPlace(self.log.whole_offset, self.log.whole_epoch), self.store.directory
        if directory.snapshot.end_offset >= place.end_offset:
            return
        position = 0
        for piece in compacted(directory.sources(place.end_offset).batches(), place.epoch):
            directory.write_part(place, position, piece)
            position += len(piece)
        directory.add_snapshot(place)


class RestartedCluster(Cluster):
    """A follower that ends and begins again with its copy, beside leaders that go on meanwhile."""

    def __init__(self, seed: int, path: Path) -> None:
        super().__init__(seed)
        self.path = path
        self.snapshots = self.restarts = 0
        self._begin()

    def _begin(self) -> None:
        self.life = Life.begin(self.path)
        self.log, self.seen = self.life.log, []
        self.log.follow_leader(self.epoch % 3, self.epoch)

    def step(self) -> None:
        if self.chance.random() < 0.1:
            self.restart()
        elif self.chance.random() < 0.1:
            self.life.take_snapshot()
            self.snapshots += 1
        else:
            super().step()

    def restart(self) -> None:
        """End the life after a few steps, in order or at any of the next system calls; begin another one."""
        try:
            with ending_at(self.chance.randint(0, 40), self.chance):
                for _ in range(self.chance.randint(0, 8)):
                    self.chance.choice(
                        (self.append, self.commit, self.fetch, self.fail_over, self.life.take_snapshot)
                    )()
                if self.chance.random() < 0.5:
                    self.life.store.directory.close()
        except ProcessEnds:
            pass
        self.life.end()
        self.restarts += 1
        self._begin()
        assert all("offset" not in notice or "batch" in notice for notice in self.life.stored.notices)

    def check(self) -> None:
        if self.seen or self.log.committed_offset == 0:
            super().check()
        assert self.life.store.cleared == []


@pytest.mark.parametrize("seed", range(30))
def test_a_copy_gives_what_was_committed_after_any_end(seed: int, tmp_path: Path) -> None:
    cluster = RestartedCluster(seed, tmp_path)
    for _ in range(120):
        cluster.step()
        cluster.check()
    cluster.leader.append(cluster.epoch, [NoOpRecord()])
    cluster.leader.high_watermark = cluster.leader.end
    for _ in range(1000):
        cluster.fetch()
        if cluster.log.committed_offset == cluster.leader.end:
            break
    cluster.check()
    assert cluster.log.committed_offset == cluster.leader.end
    assert cluster.restarts
    assert cluster.snapshots
    cluster.life.end()


def topics(first: int, count: int) -> list[TopicRecord]:
    return [TopicRecord(f"topic-{number}", UUID(int=number + 1)) for number in range(first, first + count)]


def filled(path: Path, batches: int = 4) -> None:
    """Write a copy of some batches of one record, of epoch 1, in several segments."""
    life = Life.begin(path)
    life.log.follow_leader(1, 1)
    for number in range(batches):
        records = batch(number, 1, topics(number, 1))
        assert life.log.fetched(PartitionData(high_watermark=batches, records=records))
    handed_out(life.log)
    life.store.directory.close()


def home(path: Path) -> Path:
    return path / "__cluster_metadata-0"


def names(path: Path) -> list[str]:
    return sorted(file.name for file in home(path).iterdir())


def test_a_start_fetches_at_the_end_of_the_copy_and_hands_nothing_out_before_an_answer(tmp_path: Path) -> None:
    filled(tmp_path)
    life = Life.begin(tmp_path)
    assert fetch(life.log) == (4, 1)
    assert life.log.request(0).topics[0].partitions[0].current_leader_epoch == 1  # type: ignore[union-attr]
    assert handed_out(life.log) == []
    assert not life.log.fetched(PartitionData(high_watermark=-1))  # a new leader
    assert handed_out(life.log) == []
    assert life.log.fetched(PartitionData(high_watermark=3))
    assert [end for end, _, _ in handed_out(life.log)] == [1, 2, 3]


def test_a_snapshot_is_handed_out_when_the_leader_knows_that_it_is_committed(tmp_path: Path) -> None:
    filled(tmp_path)
    life = Life.begin(tmp_path)
    life.log.fetched(PartitionData(high_watermark=4))
    handed_out(life.log)
    life.take_snapshot()
    life.end()
    again = Life.begin(tmp_path)
    assert [again.log.fetched(PartitionData(high_watermark=end)) for end in (-1, 3, 4)] == [False, False, True]
    assert handed_out(again.log) == [(4, tuple(topics(0, 4)), True)]


def test_a_snapshot_of_the_leader_comes_in_parts_before_the_copy_is_confirmed(tmp_path: Path) -> None:
    filled(tmp_path)
    life = Life.begin(tmp_path)
    leader = LeaderLog(snapshots={20: snapshot(topics(0, 20))})
    assert not life.log.fetched(PartitionData(snapshot_id=SnapshotId(20, 1)))
    life.log.chunk_fetched(leader.chunk(SnapshotName(20, 1), 0, 800))
    [part] = life.log.committed()
    assert isinstance(part, SnapshotPart)
    records = list(part.records)
    assert 0 < len(records) < 20
    assert records == topics(0, len(records))
    life.log.snapshot_gone()
    assert fetch(life.log) == (4, 1)
    assert life.log.fetched(PartitionData(high_watermark=4))
    assert [end for end, _, _ in handed_out(life.log)] == [1, 2, 3, 4]


def test_an_own_snapshot_takes_the_place_of_segments_before_it(tmp_path: Path) -> None:
    filled(tmp_path, 10)
    before = [name for name in names(tmp_path) if name.endswith(".log")]
    assert len(before) > 2
    life = Life.begin(tmp_path)
    life.log.fetched(PartitionData(high_watermark=10))
    handed_out(life.log)
    life.take_snapshot()
    later = [name for name in names(tmp_path) if name.endswith((".log", ".checkpoint", ".part"))]
    assert later == ["00000000000000000010-0000000001.checkpoint", "00000000000000000010.log"]


@pytest.mark.parametrize("place", ["below the end of an epoch", "below the start of the log"])
def test_a_leader_without_the_records_makes_a_start_begin_again(tmp_path: Path, place: str) -> None:
    filled(tmp_path)
    life = Life.begin(tmp_path)
    life.log.fetched(PartitionData(high_watermark=4))
    handed_out(life.log)
    life.take_snapshot()
    other = PartitionData(diverging_epoch=EpochEndOffset(0, 2))
    if place == "below the start of the log":
        other = PartitionData(snapshot_id=SnapshotId(2, 0))
    with pytest.raises(MetadataLogError, match="was committed before: it belongs to another cluster"):
        life.log.fetched(other)
    life.end()
    again = Life.begin(tmp_path)
    again.log.fetched(other)
    [why] = again.store.cleared
    assert "but offset 4 was committed before" in why
    assert [name for name in names(tmp_path) if name.endswith((".log", ".checkpoint"))] == ["00000000000000000000.log"]
    if place == "below the end of an epoch":
        assert fetch(again.log) == (0, 0)


def test_divergence_above_a_snapshot_cuts_the_copy(tmp_path: Path) -> None:
    filled(tmp_path)
    life = Life.begin(tmp_path)
    life.log.fetched(PartitionData(diverging_epoch=EpochEndOffset(1, 2)))
    assert fetch(life.log) == (2, 1)
    life.end()
    assert fetch(Life.begin(tmp_path).log) == (2, 1)


def test_a_torn_tail_is_cut_off(tmp_path: Path) -> None:
    filled(tmp_path, 2)
    [file] = home(tmp_path).glob("*.log")
    whole = file.read_bytes()
    file.write_bytes(whole[:-3])
    life = Life.begin(tmp_path)
    assert fetch(life.log) == (1, 1)
    [notice] = life.stored.notices
    assert notice.endswith("off 00000000000000000000.log: the last batch is incomplete")
    assert file.stat().st_size < len(whole) - 3


def test_a_damaged_batch_ends_the_log(tmp_path: Path) -> None:
    filled(tmp_path, 6)
    first, *others = sorted(home(tmp_path).glob("*.log"))
    damaged = bytearray(first.read_bytes())
    damaged[-2] ^= 1
    first.write_bytes(damaged)
    life = Life.begin(tmp_path)
    assert 0 < life.log.end_offset < 6
    [notice] = life.stored.notices
    assert "has CRC" in notice
    assert not any(file.exists() for file in others)


def test_a_missing_segment_ends_the_log(tmp_path: Path) -> None:
    filled(tmp_path, 10)
    segments = sorted(home(tmp_path).glob("*.log"))
    segments[1].unlink()
    life = Life.begin(tmp_path)
    assert life.log.end_offset == int(segments[1].stem)
    [notice] = life.stored.notices
    assert notice == f"cut before {segments[2].name}: offset {int(segments[1].stem)} is missing"
    life.end()
    segments[0].unlink()
    assert Life.begin(tmp_path).log.end_offset == 0


def test_a_damaged_snapshot_is_removed(tmp_path: Path) -> None:
    filled(tmp_path)
    life = Life.begin(tmp_path)
    life.log.fetched(PartitionData(high_watermark=4))
    handed_out(life.log)
    life.take_snapshot()
    life.end()
    [file] = home(tmp_path).glob("*.checkpoint")
    file.write_bytes(file.read_bytes()[:-5])
    again = Life.begin(tmp_path)
    assert again.log.end_offset == 0
    assert [notice.partition(":")[0] for notice in again.stored.notices] == [
        f"removed {file.name}",
        "removed the log",
    ]


def test_a_log_of_another_epoch_does_not_go_on_with_a_snapshot(tmp_path: Path) -> None:
    """A crash came after the leader's snapshot had its name, and before the log began again behind it."""
    filled(tmp_path)
    (home(tmp_path) / "00000000000000000002-0000000002.checkpoint").write_bytes(snapshot(topics(0, 2)))
    life = Life.begin(tmp_path)
    assert fetch(life.log) == (2, 2)
    assert [name for name in names(tmp_path) if name.endswith(".log")] == ["00000000000000000002.log"]


def test_leftovers_of_downloads_are_removed(tmp_path: Path) -> None:
    filled(tmp_path)
    left = home(tmp_path) / "00000000000000000002-0000000001.checkpoint.part"
    left.write_bytes(snapshot(topics(0, 2)))
    life = Life.begin(tmp_path)
    assert not left.exists()
    assert life.stored.notices == []


def test_another_clusters_copy_is_replaced(tmp_path: Path) -> None:
    filled(tmp_path)
    other = MetadataDirectory(str(tmp_path), "other", SEGMENT_BYTES)
    stored = other.load(SnapshotContent.of)
    assert (stored.snapshot, stored.batches, stored.leader_epoch) == (None, [], -1)
    assert stored.notices == ["removed, it has records of cluster cluster, this is cluster other"]
    assert (home(tmp_path) / "cluster-id").read_text() == "other\n"


def test_the_log_of_a_controller_is_left_alone(tmp_path: Path) -> None:
    home(tmp_path).mkdir()
    (home(tmp_path) / "00000000000000000000.log").write_bytes(batch(0, 1, topics(0, 1)))
    with pytest.raises(StartupError, match="is the metadata log of Apache Kafka"):
        directory_at(tmp_path).load(SnapshotContent.of)


def test_a_directory_in_use_is_rejected(tmp_path: Path) -> None:
    filled(tmp_path)
    life = Life.begin(tmp_path)
    with pytest.raises(StartupError, match="is in use by another broker"):
        directory_at(tmp_path).load(SnapshotContent.of)
    life.end()


def test_nothing_is_made_before_the_first_change(tmp_path: Path) -> None:
    directory = directory_at(tmp_path)
    directory.load(SnapshotContent.of)
    directory.run(deque([directory.close]))
    assert list(tmp_path.iterdir()) == []


def test_quorum_state_and_epochs_have_kafkas_forms(tmp_path: Path) -> None:
    filled(tmp_path)
    assert (home(tmp_path) / "quorum-state").read_text() == (
        '{"leaderId":1,"leaderEpoch":1,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
    )
    assert (home(tmp_path) / "leader-epoch-checkpoint").read_text() == "0\n1\n1 0\n"
    assert (home(tmp_path) / "partition.metadata").read_text() == "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n"
