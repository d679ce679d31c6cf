"""Copies and deletions of segments, with a crash at each step."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from pylogbroker.storage import LogConfig, Origin
from pylogbroker.storage.remote import contents, copying, deletion
from pylogbroker.storage.remote.checked_store import CheckedStore, StoreFailure
from pylogbroker.storage.remote.chunk_cache import ChunkCache
from pylogbroker.storage.remote.contents import Contents
from pylogbroker.storage.remote.copying import CopyAborted
from pylogbroker.storage.remote.object_names import SegmentName
from pylogbroker.storage.remote.reading import RemoteReader
from tests.storage.remote.segments import TOPIC_ID, copy, copy_all, ids, pieces_of, rows, sources
from tests.storage.remote.stores import Crash, FailingStore, MemoryStore
from tests.storage.support import NOW, batch, fill, marker, open_log

DAY_MS = 86_400_000
CHANGES_OF_A_COPY = 3
CHANGES_OF_A_DELETION = 4
CONFIG = LogConfig(segment_bytes=400, remote_storage_enable=True)


def listing(store: MemoryStore) -> Contents:
    return contents.load(CheckedStore(store), TOPIC_ID, 0)


def plain(store: FailingStore) -> FailingStore:
    """The store after a restart of its client."""
    return FailingStore(store.objects)


def test_a_copy_is_three_objects_the_manifest_last(tmp_path: Path) -> None:
    log, store = open_log(tmp_path / "t-0", CONFIG), MemoryStore()
    fill(log, 10)
    copied = copy(CheckedStore(store), sources(log)[0], "a" * 32)
    assert store.calls == ["put log", "put index", "read log", "read index", "put manifest", "read manifest"]
    assert listing(store).segments == (copied,)
    assert (copied.base_offset, copied.end_offset, copied.max_timestamp) == (
        0, log.segments[1].base_offset, log.segments[0].largest()[0],
    )  # fmt: skip


@pytest.mark.parametrize("when", ["before", "within", "after"])
@pytest.mark.parametrize("step", range(CHANGES_OF_A_COPY))
def test_after_a_crash_in_a_copy_all_or_nothing_is_stored(tmp_path: Path, step: int, when: str) -> None:
    log = open_log(tmp_path / "t-0", CONFIG)
    values = fill(log, 10)
    store = FailingStore(fails_at=step, when=when)
    with pytest.raises(StoreFailure):
        copy(CheckedStore(store), sources(log)[0], "a" * 32)
    store = plain(store)
    stored = listing(store)
    is_stored = step == CHANGES_OF_A_COPY - 1 and when == "after"
    assert len(stored.segments) == is_stored
    reader = RemoteReader(CheckedStore(store), ChunkCache(1 << 24), TOPIC_ID, 0)
    if is_stored:
        records = reader.read(pieces_of(CheckedStore(store), log), 0, 1 << 20, 1 << 20)
        assert records is not None
        assert rows(records.data) == list(enumerate(values))[: log.segments[1].base_offset]
    # the next leader finishes what was begun, and copies again
    swept = deletion.sweep(CheckedStore(store), TOPIC_ID, 0, stored, 1, NOW)
    assert not listing(store).unfinished
    assert swept == {*stored.unfinished}
    copy(CheckedStore(store), sources(log)[0], "b" * 32, epoch=1)
    pieces = pieces_of(CheckedStore(store), log)
    records = reader.read(pieces, 0, 1 << 20, 1 << 20)
    assert records is not None
    assert rows(records.data) == list(enumerate(values))[: log.segments[1].base_offset]


def test_copies_of_later_leaders_are_left_alone(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", CONFIG)
    fill(log, 10)
    store = FailingStore(fails_at=1)
    with pytest.raises(StoreFailure):
        copy(CheckedStore(store), sources(log)[0], "a" * 32, epoch=5)
    store = plain(store)
    deletion.sweep(CheckedStore(store), TOPIC_ID, 0, listing(store), 4, NOW)
    assert [name.rpartition(".")[2] for name in store.objects] == ["log"]
    deletion.sweep(CheckedStore(store), TOPIC_ID, 0, listing(store), 5, NOW)
    assert [name.rpartition(".")[2] for name in store.objects] == ["deleted"]


def test_a_manifest_that_arrives_late_is_void(tmp_path: Path) -> None:
    """A deposed leader puts its manifest after its successor has deleted the unfinished copy."""
    log, store = open_log(tmp_path / "t-0", CONFIG), FailingStore(fails_at=2)
    fill(log, 10)
    with pytest.raises(StoreFailure):
        copy(CheckedStore(store), sources(log)[0], "a" * 32)
    successor = plain(store)
    deletion.sweep(CheckedStore(successor), TOPIC_ID, 0, listing(successor), 1, NOW)
    late = MemoryStore(successor.objects)
    copy(CheckedStore(late), sources(log)[0], "a" * 32)
    assert listing(late).segments == ()
    deletion.sweep(CheckedStore(late), TOPIC_ID, 0, listing(late), 1, NOW)
    assert [name.rpartition(".")[2] for name in late.objects] == ["deleted"]


def test_a_manifest_without_its_objects_does_not_count(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", CONFIG)
    fill(log, 10)
    for suffix in (".log", ".index"):
        store = MemoryStore()
        copy_all(CheckedStore(store), log)
        first = min(name for name in store.objects if name.endswith(suffix))
        del store.objects[first]
        stored = listing(store)
        assert len(stored.damaged) == 1
        assert len(stored.segments) == len(log.segments) - 2


@pytest.mark.parametrize("when", ["before", "within", "after"])
@pytest.mark.parametrize("step", range(CHANGES_OF_A_DELETION))
def test_after_a_crash_in_a_deletion_it_can_be_finished(tmp_path: Path, step: int, when: str) -> None:
    log, store = open_log(tmp_path / "t-0", CONFIG), FailingStore()
    fill(log, 10)
    copy_all(CheckedStore(store), log)
    before = listing(store).segments
    gone, *others = before
    store = FailingStore(store.objects, fails_at=step, when=when)
    with pytest.raises(StoreFailure):
        deletion.delete_segment(CheckedStore(store), TOPIC_ID, 0, gone.name, NOW)
    store = plain(store)
    stored = listing(store)
    has_begun = step > 0 or when != "before"
    assert stored.segments == (tuple(others) if has_begun else before)
    deletion.sweep(CheckedStore(store), TOPIC_ID, 0, stored, 0, NOW)
    if has_begun:
        left = [name for name in store.objects if gone.name.id in name]
        assert [name.rpartition(".")[2] for name in left] == ["deleted"]
    assert listing(store).segments == (tuple(others) if has_begun else before)


def test_a_tombstone_stays_for_a_day(tmp_path: Path) -> None:
    log, store = open_log(tmp_path / "t-0", CONFIG), MemoryStore()
    fill(log, 10)
    copied = copy(CheckedStore(store), sources(log)[0], "a" * 32)
    deletion.delete_segment(CheckedStore(store), TOPIC_ID, 0, copied.name, NOW)
    for now_ms, count in ((NOW + DAY_MS, 1), (NOW + DAY_MS + 1, 0)):
        left = deletion.sweep(CheckedStore(store), TOPIC_ID, 0, listing(store), 0, now_ms)
        assert (len(left), len(store.objects)) == (count, count)


@pytest.mark.parametrize("step", range(9))
def test_a_deleted_partition_leaves_nothing_even_after_a_crash(tmp_path: Path, step: int) -> None:
    log, store = open_log(tmp_path / "t-0", attrs.evolve(CONFIG, segment_bytes=600)), FailingStore()
    fill(log, 10)
    copy_all(CheckedStore(store), log)
    other = "another/0/object"
    store = FailingStore({**store.objects, other: b""}, fails_at=step)
    try:
        deletion.delete_partition(CheckedStore(store), TOPIC_ID, 0, lambda: None)
    except StoreFailure:
        store = plain(store)
        interrupted = list(deletion.interrupted_partitions(CheckedStore(store)))
        assert interrupted == ([] if step == 0 else [(TOPIC_ID, 0)])
        deletion.delete_partition(CheckedStore(store), TOPIC_ID, 0, lambda: None)
    assert set(store.objects) == {other}


@pytest.mark.parametrize("suffix", [".log", ".index", ".manifest"])
def test_a_store_that_keeps_other_bytes_is_noticed_before_the_copy_counts(tmp_path: Path, suffix: str) -> None:
    class Forgetful(MemoryStore):
        def read(self, name: str, start: int, length: int) -> bytes:
            data = MemoryStore.read(self, name, start, length)
            return data[:-1] if name.endswith(suffix) else data

    log, store = open_log(tmp_path / "t-0", CONFIG), Forgetful()
    fill(log, 10)
    with pytest.raises(StoreFailure, match="other bytes than were written"):
        copy(CheckedStore(store), sources(log)[0], "a" * 32)
    assert any(name.endswith(".manifest") for name in store.objects) == (suffix == ".manifest")
    assert listing(store).segments == ()


def test_a_crash_is_a_failure_of_the_store_for_its_callers() -> None:
    with pytest.raises(StoreFailure, match="Crash"):
        CheckedStore(FailingStore(fails_at=0, error=Crash())).put("name", [b""])


def test_a_lost_transaction_index_ends_the_copy(tmp_path: Path) -> None:
    """Otherwise, readers of committed records would not know that transactions were aborted."""
    log, store = open_log(tmp_path / "t-0", CONFIG), MemoryStore()
    log.append(batch([b"x"], (), (1, 0, 0), transactional=True), NOW)
    log.append(marker(False, 1), NOW, origin=Origin.COORDINATOR)
    fill(log, 10)
    [source, *_] = sources(log)
    assert source.transactions == 1
    for path in (tmp_path / "t-0").glob("*.txnindex"):
        path.unlink()
    with pytest.raises(CopyAborted):
        copy(CheckedStore(store), source, "a" * 32)
    assert not any(name.endswith(".manifest") for name in store.objects)


@pytest.mark.parametrize("error", [CopyAborted(), OSError("the local disk")])
def test_a_copy_that_ends_early_is_no_failure_of_the_store(tmp_path: Path, error: Exception) -> None:
    log, store = open_log(tmp_path / "t-0", CONFIG), MemoryStore()
    fill(log, 10)
    [source, *_] = sources(log)

    def fail(size: int) -> None:
        raise error

    with pytest.raises(type(error)) as raised:
        copying.copy(CheckedStore(store), source, SegmentName(0, source.end_offset, 0, "a" * 32), NOW, fail)
    assert raised.value is error
    assert store.objects == {}


def test_a_tombstone_that_another_leader_has_deleted_stops_no_sweep(tmp_path: Path) -> None:
    log, store = open_log(tmp_path / "t-0", CONFIG), MemoryStore()
    fill(log, 10)
    copied = copy(CheckedStore(store), sources(log)[0], "a" * 32)
    deletion.delete_segment(CheckedStore(store), TOPIC_ID, 0, copied.name, NOW)
    held = listing(store)
    store.objects.clear()
    assert deletion.sweep(CheckedStore(store), TOPIC_ID, 0, held, 0, NOW) == frozenset()


def test_a_crash_of_the_machine_loses_no_state_of_producers(tmp_path: Path) -> None:
    """Snapshots of the last segments are torn then: nothing has synced them."""
    log, store = open_log(tmp_path / "t-0", CONFIG), MemoryStore()
    for sequence in range(12):
        log.append(batch([b"x" * 60], (), (sequence % 2, 0, sequence // 2)), NOW)
    for path in (tmp_path / "t-0").glob("*.snapshot"):
        path.write_bytes(b"")
    log = open_log(tmp_path / "t-0", CONFIG)
    pieces = copy_all(CheckedStore(store), log)
    reader = RemoteReader(CheckedStore(store), ChunkCache(1 << 20), TOPIC_ID, 0)
    for piece in pieces:
        state = reader.state_at([piece.segment], piece.end_offset, 0)
        assert state is not None
        sequences = {entry.producer_id: entry.batches[-1].last_sequence for entry in state.producers}
        assert sequences == {number % 2: number // 2 for number in range(piece.end_offset)}


def test_a_damaged_snapshot_is_not_copied(tmp_path: Path) -> None:
    log, store = open_log(tmp_path / "t-0", CONFIG), MemoryStore()
    fill(log, 10)
    for path in (tmp_path / "t-0").glob("*.snapshot"):
        path.write_bytes(b"noise")
    segment = copy(CheckedStore(store), sources(log)[0], "a" * 32)
    reader = RemoteReader(CheckedStore(store), ChunkCache(1 << 20), TOPIC_ID, 0)
    state = reader.state_at([segment], segment.end_offset, 0)
    assert state is not None
    assert state.producers == ()


def test_many_manifests_are_read_in_order_and_once(tmp_path: Path) -> None:
    log, store = open_log(tmp_path / "t-0", attrs.evolve(CONFIG, segment_bytes=200)), MemoryStore()
    fill(log, 40)
    copy_all(CheckedStore(store), log)
    store.calls.clear()
    loaded = contents.load(CheckedStore(store), TOPIC_ID, 0)
    assert [segment.base_offset for segment in loaded.segments] == [source.base_offset for source in sources(log)]
    assert store.calls.count("read manifest") == len(loaded.segments) > 20
    store.calls.clear()
    again = contents.load(CheckedStore(store), TOPIC_ID, 0, loaded.segments)
    assert (again, store.calls) == (loaded, ["list"])


def test_ids_differ() -> None:
    new_id = ids()
    assert new_id() != new_id()
