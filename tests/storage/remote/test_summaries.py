"""Summaries of manifests: what they save, and that nothing depends on them."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

import attrs
import pytest

from pylogbroker.storage.remote import contents, manifest, object_names, summaries
from pylogbroker.storage.remote.checked_store import CheckedStore, StoreFailure
from pylogbroker.storage.remote.contents import Contents
from pylogbroker.storage.remote.manifest import RemoteSegment
from pylogbroker.storage.remote.object_names import SegmentName
from tests.storage.remote.stores import FailingStore, MemoryStore

TOPIC_ID = UUID(int=9)
PREFIX = object_names.partition_prefix(TOPIC_ID, 0)
EPOCH = 4


@pytest.fixture(autouse=True)
def small_summaries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summaries, "SEGMENTS", 10)


def segment(number: int, epoch: int = 0) -> RemoteSegment:
    base = number * 5
    name = SegmentName(base, base + 5, epoch, UUID(int=number + (epoch << 64)).hex)
    return RemoteSegment(name, "t", 0, 3, 1000 + number, ((epoch, base),), -1, 7, 2, number)


def stored(count: int, store: MemoryStore | None = None) -> MemoryStore:
    store = MemoryStore() if store is None else store
    for number in range(count):
        keep(store, segment(number))
    return store


def keep(store: MemoryStore, one: RemoteSegment) -> None:
    name = f"{PREFIX}{one.name}"
    store.objects |= {f"{name}.log": b"log", f"{name}.index": b"ix", f"{name}.manifest": manifest.encode(one)}


def drop(store: MemoryStore, one: RemoteSegment) -> None:
    for suffix in (".log", ".index", ".manifest"):
        store.objects.pop(f"{PREFIX}{one.name}{suffix}")


def load(store: MemoryStore) -> Contents:
    return contents.load(CheckedStore(store), TOPIC_ID, 0)


def update(store: MemoryStore, epoch: int = EPOCH) -> None:
    held = load(store)
    ids = iter(range(1000))
    summaries.update(
        CheckedStore(store), TOPIC_ID, 0, held.segments, held.summaries, epoch, lambda: UUID(int=next(ids)).hex
    )


def names(store: MemoryStore) -> list[str]:
    return sorted(name for name in store.objects if name.endswith(".manifests"))


def reads(store: MemoryStore) -> Counter[str]:
    """Load as a new leader does; return the requests."""
    store.calls.clear()
    load(store)
    return Counter(store.calls)


def test_a_new_leader_reads_summaries_and_the_manifests_that_they_lack() -> None:
    store = stored(25)
    before = load(store)
    assert reads(store) == {"list": 1, "read manifest": 25}
    update(store)
    assert [name[len(PREFIX) :].split("-")[:3] for name in names(store)] == [
        [f"{0:020}", f"{50:020}", "4"],
        [f"{50:020}", f"{100:020}", "4"],
    ]
    assert reads(store) == {"list": 1, "read manifests": 2, "read manifest": 5}
    after = load(store)
    assert attrs.evolve(after, summaries={}) == before


def test_a_segment_counts_by_its_own_objects() -> None:
    store = stored(20)
    update(store)
    drop(store, segment(3))
    store.objects[f"{PREFIX}{segment(4).name}.deleted"] = b"7\n"
    store.objects[f"{PREFIX}{segment(5).name}.log"] = b"other"
    store.objects.pop(f"{PREFIX}{segment(6).name}.log")
    held = load(store)
    assert [one.base_offset // 5 for one in held.segments] == [0, 1, 2, *range(7, 20)]
    assert len(held.damaged) == 2


@pytest.mark.parametrize("damage", [b"", b"x", b"\n" * 50, b"\xff" * 300])
def test_damaged_summaries_are_read_around(damage: bytes) -> None:
    store = stored(20)
    before = load(store)
    update(store)
    for name in names(store):
        store.objects[name] = damage
    assert attrs.evolve(load(store), summaries={}) == before


def test_each_byte_of_a_summary_may_be_damaged() -> None:
    store = stored(10)
    before = load(store).segments
    update(store)
    [name] = names(store)
    whole = store.objects[name]
    for at in range(0, len(whole), 7):
        store.objects[name] = whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
        assert load(store).segments == before, at


def test_a_summary_of_another_partition_does_not_count() -> None:
    data = summaries.encode([segment(1), attrs.evolve(segment(2), partition=5)])
    assert list(summaries.decode(0, data)) == [segment(1)]


def test_summaries_go_after_their_segments_and_others_follow() -> None:
    store = stored(35)
    update(store)
    first, *others = names(store)
    for number in range(9):
        drop(store, segment(number))
    update(store)
    assert names(store) == [first, *others]  # one of its segments is left
    drop(store, segment(9))
    for number in range(35, 41):
        keep(store, segment(number))
    update(store)
    assert names(store)[:2] == others
    assert [name[len(PREFIX) :].split("-")[:2] for name in names(store)[2:]] == [[f"{150:020}", f"{200:020}"]]


def test_an_interrupted_summary_is_deleted_and_written_again() -> None:
    store = stored(10)
    store.objects[f"{PREFIX}{SegmentName(0, 50, EPOCH, 'e' * 32)}.manifests.tmp"] = b"part"
    store.calls.clear()
    update(store)
    assert "delete manifests" in store.calls
    assert len(names(store)) == 1


def test_summaries_of_later_leaders_are_left_alone() -> None:
    store = stored(10)
    later = f"{PREFIX}{SegmentName(500, 600, EPOCH + 1, 'e' * 32)}.manifests"
    store.objects[later] = b""
    update(store)
    assert later in names(store)


@pytest.mark.parametrize("when", ["before", "within", "after"])
@pytest.mark.parametrize("fails_at", range(7))
def test_a_crash_during_an_update_loses_nothing(when: str, fails_at: int) -> None:
    store = FailingStore(fails_at=1 << 30, when=when)
    stored(20, store)
    before = load(store)
    for number in range(5):
        name = f"{PREFIX}{SegmentName(1000 + number, 1001 + number, 0, 'e' * 32)}.manifests"
        store.objects[name] = b"of segments that are gone"
    store.fails_at = fails_at
    with pytest.raises(StoreFailure):
        update(store)
    store.fails_at = 1 << 30
    assert attrs.evolve(load(store), summaries={}) == before
    update(store)
    assert attrs.evolve(load(store), summaries={}) == before
    assert reads(store)["read manifest"] <= 5 * (when == "within")  # of the summary that was cut
