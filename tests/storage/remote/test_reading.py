"""Reads of remote segments give what the local log gives."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from pylogbroker.storage import Log, LogConfig, Origin
from pylogbroker.storage.remote.checked_store import CheckedStore
from pylogbroker.storage.remote.chunk_cache import ChunkCache
from pylogbroker.storage.remote.manifest import DamagedObject
from pylogbroker.storage.remote.reading import RemoteReader
from tests.storage.remote.segments import TOPIC_ID, bytes_of, copy_all, rows
from tests.storage.remote.stores import MemoryStore
from tests.storage.support import NOW, batch, fill, marker, offset_for_timestamp, open_log

CONFIG = LogConfig(segment_bytes=4000, index_interval_bytes=200, remote_storage_enable=True)


def reader_of(store: MemoryStore, cache_bytes: int = 1 << 24) -> RemoteReader:
    return RemoteReader(CheckedStore(store), ChunkCache(cache_bytes), TOPIC_ID, 0)


def filled(path: Path, seed: int, config: LogConfig = CONFIG, largest: int = 300) -> Log:
    """A log of batches of random sizes and times."""
    log, numbers = open_log(path, config), random.Random(seed)
    for _ in range(60):
        count = numbers.randint(1, 5)
        values = [numbers.randbytes(numbers.randint(0, largest)) for _ in range(count)]
        log.append(batch(values, [NOW + numbers.randint(0, 5000) for _ in range(count)]), NOW)
    log.high_watermark = log.log_end_offset
    return log


@pytest.mark.parametrize("seed", range(5))
def test_every_read_is_that_of_the_local_log(tmp_path: Path, seed: int) -> None:
    log, store = filled(tmp_path / "t-0", seed), MemoryStore()
    pieces, reader = copy_all(CheckedStore(store), log), reader_of(store)
    end, numbers = log.segments[-1].base_offset, random.Random(seed)
    assert (pieces[0].first_offset, pieces[-1].end_offset) == (0, end)
    for _ in range(200):
        offset, upto = numbers.randrange(end), numbers.randint(1, end)
        upto = log.segments[-1].base_offset if numbers.random() < 0.5 else _batch_end(log, upto)
        max_bytes, min_one = numbers.choice([0, 100, 1000, 10_000]), numbers.random() < 0.5
        local = log.read(offset, max_bytes, upto=upto, min_one=min_one)
        remote = reader.read(pieces, offset, max_bytes, upto, min_one=min_one)
        assert (b"" if remote is None else remote.data) == bytes_of(local)
        if remote is not None and local is not None:
            assert remote.next_offset == local.next_offset


def _batch_end(log: Log, offset: int) -> int:
    """End of the batch with an offset: where a high watermark may be."""
    region = log.read(offset - 1, 0, upto=log.log_end_offset)
    assert region is not None
    return region.next_offset


@pytest.mark.parametrize("seed", range(3))
def test_every_search_by_time_is_that_of_the_local_log(tmp_path: Path, seed: int) -> None:
    log, store = filled(tmp_path / "t-0", seed), MemoryStore()
    pieces, reader = copy_all(CheckedStore(store), log), reader_of(store)
    end = log.segments[-1].base_offset
    for timestamp in range(NOW - 10, NOW + 5100, 97):
        local = offset_for_timestamp(log, timestamp)
        expected = None if local is None or local.offset >= end else local
        assert reader.find_timestamp(pieces, timestamp, 0) == expected


def test_a_segment_of_many_chunks_is_read_with_few_requests(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=5 << 20, remote_storage_enable=True)
    log, store = open_log(tmp_path / "t-0", config), MemoryStore()
    values = fill(log, 130, size=100_000)
    pieces = copy_all(CheckedStore(store), log)
    store.calls.clear()
    reader, offset, found = reader_of(store, 3 << 20), 0, []
    while (records := reader.read(pieces, offset, 3 << 20, pieces[-1].end_offset)) is not None:
        found += rows(records.data)
        offset = records.next_offset
    assert found == list(enumerate(values))[: log.segments[-1].base_offset]
    assert store.calls.count("read log") <= 12


def test_aborted_transactions_are_those_of_the_local_log(tmp_path: Path) -> None:
    log, store, numbers = open_log(tmp_path / "t-0", CONFIG), MemoryStore(), random.Random(1)
    open_ones: dict[int, int] = {}
    sequences: dict[int, int] = dict.fromkeys(range(4), 0)
    for _ in range(200):
        producer = numbers.randrange(4)
        if producer in open_ones and numbers.random() < 0.3:
            del open_ones[producer]
            log.append(marker(numbers.random() < 0.5, producer), NOW, origin=Origin.COORDINATOR)
        else:
            open_ones[producer] = 1
            log.append(batch([b"x" * 100], (), (producer, 0, sequences[producer]), transactional=True), NOW)
            sequences[producer] += 1
        log.high_watermark = log.log_end_offset
    pieces, reader = copy_all(CheckedStore(store), log), reader_of(store)
    end = log.segments[-1].base_offset
    assert any(piece.segment.first_aborted >= 0 for piece in pieces)
    for first in range(0, end, 3):
        for upto in range(first + 1, end, 17):
            local = log.aborted_transactions(first, upto)
            remote, is_all = reader.aborted_transactions(pieces, first, upto)
            if is_all:
                assert remote == local
            else:  # markers may be in the active segment
                assert remote == [one for one in local if one.last_offset < end]


@pytest.mark.parametrize("suffix", [".log", ".index"])
def test_damage_is_an_error_and_no_record(tmp_path: Path, suffix: str) -> None:
    log, numbers = filled(tmp_path / "t-0", 1), random.Random(1)
    for _ in range(20):
        store = MemoryStore()
        pieces = copy_all(CheckedStore(store), log)
        name = min(name for name in store.objects if name.endswith(suffix))
        data = bytearray(store.objects[name])
        data[numbers.randrange(len(data))] ^= 1 + numbers.randrange(255)
        store.objects[name] = bytes(data)
        with pytest.raises(DamagedObject):
            reader_of(store).read(pieces, 0, 1 << 20, pieces[-1].end_offset)
