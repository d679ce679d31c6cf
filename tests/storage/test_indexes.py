"""Offset and time index: Kafka's bytes, and lookups against a plain list."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylogbroker.storage.files import ResourcePool
from pylogbroker.storage.log.offset_index import OffsetIndex
from pylogbroker.storage.log.time_index import TimeIndex

BASE = 1 << 33
increasing = st.lists(st.integers(0, 10_000), unique=True, min_size=0, max_size=60).map(sorted)


def offset_index(path: Path, entries: int = 0, pool: ResourcePool | None = None) -> OffsetIndex:
    return OffsetIndex(str(path), BASE, entries * 8, pool or ResourcePool(1 << 20))


def time_index(path: Path, entries: int = 0) -> TimeIndex:
    return TimeIndex(str(path), BASE, entries * 12)


def test_the_layout_of_the_offset_index(tmp_path: Path) -> None:
    index = offset_index(tmp_path / "i")
    index.append(BASE + 7, 4096)
    index.append(BASE + 0xFFFF, 0x7FFFFFFF)
    index.store()
    assert (tmp_path / "i").read_bytes() == struct.pack(">IIII", 7, 4096, 0xFFFF, 0x7FFFFFFF)


def test_the_layout_of_the_time_index(tmp_path: Path) -> None:
    index = time_index(tmp_path / "i")
    index.append(1_500_000_000_000, BASE + 7)
    index.append(1_500_000_000_000, BASE + 9)  # not younger: says nothing new
    index.append(1_500_000_000_001, BASE + 12)
    index.store()
    assert (tmp_path / "i").read_bytes() == struct.pack(">qIqI", 1_500_000_000_000, 7, 1_500_000_000_001, 12)


@given(increasing, st.integers(0, 60), st.booleans(), st.lists(st.integers(-5, 10_100), max_size=10))
def test_offset_lookups(
    tmp_path_factory: pytest.TempPathFactory, offsets: list[int], stored: int, again: bool, asked: list[int]
) -> None:
    """All parts of an index may be on the disk or not, and it may have been loaded before or not."""
    path = tmp_path_factory.mktemp("index") / "i"
    index = offset_index(path, pool=ResourcePool(0 if again else 1 << 20))
    entries = [(offset, 100 + 2 * offset) for offset in offsets]
    for number, (offset, position) in enumerate(entries):
        if number == stored:
            index.store()
            if again:
                index = offset_index(path, number)
        index.append(BASE + offset, position)
    assert len(index) == len(entries)
    for offset in asked:
        below = [(BASE + o, p) for o, p in entries if o <= offset]
        assert index.lookup(BASE + offset) == (below[-1] if below else (-1, 0))
        before = [(BASE + o, p) for o, p in entries if p <= offset]
        assert index.lookup_position(max(offset, 0)) == (before[-1] if before else (-1, 0))
    assert index.last() == ((BASE + entries[-1][0], entries[-1][1]) if entries else (-1, 0))


@given(increasing, st.integers(0, 60), st.lists(st.integers(-5, 10_100), max_size=10))
def test_time_lookups(
    tmp_path_factory: pytest.TempPathFactory, times: list[int], stored: int, asked: list[int]
) -> None:
    path = tmp_path_factory.mktemp("index") / "i"
    index = time_index(path)
    entries = [(time, BASE + number) for number, time in enumerate(times)]
    for number, (time, offset) in enumerate(entries):
        if number == stored:
            index.store()
            index = time_index(path, number)
        index.append(time, offset)
    for time in asked:
        below = [entry for entry in entries if entry[0] <= time]
        assert index.lookup(time) == (below[-1] if below else (-1, BASE))
    assert index.last() == (entries[-1] if entries else (-1, BASE))


@given(increasing, st.integers(0, 60), st.integers(-5, 10_100))
def test_truncation(tmp_path_factory: pytest.TempPathFactory, offsets: list[int], stored: int, cut: int) -> None:
    directory = tmp_path_factory.mktemp("index")
    index, times = offset_index(directory / "i"), time_index(directory / "t")
    for number, offset in enumerate(offsets):
        if number == stored:
            index.store()
            times.store()
        index.append(BASE + offset, number)
        times.append(number, BASE + offset)
    index.truncate(BASE + cut)
    times.truncate(BASE + cut)
    index.store()
    times.store()
    kept = [(number, offset) for number, offset in enumerate(offsets) if offset < cut]
    written = (directory / "i").read_bytes() if (directory / "i").exists() else b""
    assert written == b"".join(struct.pack(">II", offset, number) for number, offset in kept)
    assert len(index) == len(times) == len(kept)
    assert index.last() == ((BASE + kept[-1][1], kept[-1][0]) if kept else (-1, 0))
    assert times.last() == ((kept[-1][0], BASE + kept[-1][1]) if kept else (-1, BASE))


def test_memory_stays_small_while_an_index_grows(tmp_path: Path) -> None:
    index = offset_index(tmp_path / "i")
    for number in range(5000):
        index.append(BASE + number, number * 10)
    assert (tmp_path / "i").stat().st_size == 4096 * 8  # written in pieces of 1024 entries
    assert index.lookup(BASE + 4999) == (BASE + 4999, 49990)
    assert index.lookup(BASE + 17) == (BASE + 17, 170)


def test_a_loaded_index_makes_space_for_another(tmp_path: Path) -> None:
    pool = ResourcePool(3000)
    for name in "ab":
        index = offset_index(tmp_path / name)
        for number in range(256):
            index.append(BASE + number, number)
        index.store()
    first, second = (offset_index(tmp_path / name, 256, pool) for name in "ab")
    for _ in range(3):
        assert first.lookup(BASE + 5) == (BASE + 5, 5)
        assert second.lookup(BASE + 6) == (BASE + 6, 6)
        assert pool.held == 2048


def test_a_file_shorter_than_it_was_counts_as_empty(tmp_path: Path) -> None:
    (tmp_path / "i").write_bytes(struct.pack(">II", 3, 30))
    index = offset_index(tmp_path / "i", 2)
    assert index.lookup(BASE + 9) == (-1, 0)
