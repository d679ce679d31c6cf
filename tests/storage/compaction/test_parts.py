"""The parts that the cleaner is made of, each for itself."""

from __future__ import annotations

import gzip
import random
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylogbroker.records import Codec, Record, build, crc32c, encode_varint
from pylogbroker.storage.compaction.blocks import PADDING, DamagedSegment, read_blocks
from pylogbroker.storage.compaction.cleaner import Throttle, clean
from pylogbroker.storage.compaction.jobs import (
    Cleaned,
    CleanerJob,
    Failed,
    Replacement,
    SourceSegment,
    Statistics,
    outcome,
)
from pylogbroker.storage.compaction.key_hash import KeyHash, keys_of
from pylogbroker.storage.compaction.offset_map import OffsetMap
from pylogbroker.storage.compaction.record_columns import read_columns, read_keys
from pylogbroker.storage.log.transaction_index import AbortedTxn
from tests.storage.compaction.log_files import NOW, Files

# Values that travel


def test_a_job_travels() -> None:
    job = CleanerJob(
        "/logs/t_0",
        (SourceSegment(0, "/logs/t_0/a.kafka", 10, 1), SourceSegment(7, "/logs/t_0/ü.kafka", 20, 2)),
        3,
        9,
        NOW,
        dedupe_bytes=5,
        last_sequences={1 << 40: 8},
        aborted=(AbortedTxn(1, 2, 3, 4),),
    )
    assert "\n" not in job.to_json()
    assert CleanerJob.from_json(job.to_json()) == job


def test_an_outcome_travels() -> None:
    cleaned = Cleaned((Replacement((0, 7), 0, 61),), 9, Statistics(records_read=5, keys=3, seconds=0.5))
    assert outcome(cleaned.to_json()) == cleaned
    for failed in (Failed("the CRC does not fit", "/a", 0), Failed("no memory")):
        assert outcome(failed.to_json()) == failed


# The key map


@given(st.lists(st.lists(st.integers(0, 60), max_size=30), max_size=8), st.integers(0, 5))
def test_the_map_is_a_dictionary(puts: list[list[int]], collisions: int) -> None:
    """Hashes that share a half, or the slots they are tried in, are distinguished."""
    key_map, known, offset = OffsetMap.of(24 * 100, 1000), dict[tuple[int, int], int](), 0

    def halves(numbers: list[int]) -> tuple[np.ndarray, np.ndarray]:
        first = [(n % (collisions + 1) + 1) << 40 for n in numbers]
        return np.array(first, np.uint64), np.array(
            [(n + 1) * 0x9E3779B97F4A7C15 % (1 << 64) for n in numbers], np.uint64
        )

    for numbers in puts:
        first, second = halves(numbers)
        missing = {(int(a), int(b)) for a, b in zip(first, second, strict=True)} - set(known)
        assert key_map.missing(first, second) == len(missing)
        key_map.put(first, second, np.arange(offset, offset + len(numbers)))
        for n, pair in enumerate(zip(first, second, strict=True)):
            known[int(pair[0]), int(pair[1])] = offset + n
        offset += len(numbers)
        assert key_map.used == len(known)
    first, second = halves(list(range(80)))
    wanted = [known.get((int(a), int(b)), -1) for a, b in zip(first, second, strict=True)]
    assert key_map.last(first, second).tolist() == wanted
    assert key_map.into_offsets().tolist() == sorted(known.values())


def test_map_returns_the_stored_offsets() -> None:
    key_map = OffsetMap.of(24 * 10_000, 1 << 40)
    drawn = np.frombuffer(random.Random(1).randbytes(16 * key_map.free), np.uint64).reshape(2, -1)
    assert 8_000 <= key_map.free <= 9_000
    key_map.put(drawn[0], drawn[1], np.arange(drawn.shape[1]))
    assert key_map.free == 0
    assert key_map.last(drawn[0], drawn[1]).tolist() == list(range(drawn.shape[1]))


def test_a_small_log_takes_a_small_map() -> None:
    assert OffsetMap.of(1 << 40, 100).free < 200


# Hashes


@given(st.lists(st.one_of(st.binary(max_size=40), st.binary(min_size=1000, max_size=1100)), max_size=30))
def test_hashes_are_equal_exactly_for_equal_keys(keys: list[bytes]) -> None:
    first, second = KeyHash.random()(keys_of([*keys, *reversed(keys)]))
    hashes = list(zip(first.tolist(), second.tolist(), strict=True))
    assert hashes[: len(keys)] == hashes[len(keys) :][::-1]
    assert len(set(hashes)) == len(set(keys))
    assert 0 not in first


def test_a_key_hashes_equally_wherever_it_lies() -> None:
    """Bytes after a key in memory must not matter, at any distance from a word's border."""
    hash_of = KeyHash.random()
    for size in (1, 7, 8, 9, 1024):
        key = bytes(range(1, 200)) * 6
        around = [b"\xff" * n for n in range(9)]
        mixed = [part for n in range(9) for part in (around[n], key[:size])]
        first, second = hash_of(keys_of([*mixed, b"\xee" * 9]))
        assert len(set(first[1:18:2].tolist())) == len(set(second[1:18:2].tolist())) == 1


def test_hashes_are_spread() -> None:
    """Numbers as keys: hardly any slot of as many gets more than 14 of them, whichever half is looked at."""
    keys = keys_of([b"%08d" % number for number in range(1 << 14)])
    for half in KeyHash.random()(keys):
        assert np.bincount((half >> np.uint64(50)).astype(np.int64)).max() <= 14
    one, other = KeyHash.random()(keys)[0], KeyHash.random()(keys)[0]
    assert not np.array_equal(one, other)


# Rows


@given(st.data())
def test_decoded_rows_match_the_records(data: st.DataObject) -> None:
    """Many batches side by side, few and long ones, and both at once."""
    rng = random.Random(data.draw(st.integers(0, 1 << 32)))
    counts = [rng.choice([1, 2, 3, 40]) for _ in range(rng.choice([1, 5, 100, 150]))]
    longest = rng.choice([3, 200, 20_000])
    payloads, wanted = [], []
    for number, count in enumerate(counts):
        records = [
            Record(
                (n + 1) * rng.choice([1, 70]) + (n << 14),
                NOW + rng.choice([-1, 1]) * rng.randrange(1 << rng.choice([3, 10, 40])),
                rng.choice([None, b"", rng.randbytes(rng.randrange(200))]),
                rng.choice([None, b"", bytes(rng.randrange(longest if n == 1 else 200))]),
                rng.choice([(), (("h", b"v"),)]),
            )
            for n in range(count)
        ]
        payloads.append(build(records, base_offset=None)[61:])
        first = records[0]
        wanted += [(number, r.offset - first.offset, r.timestamp - first.timestamp, r.key) for r in records]
    sizes = np.array([len(payload) for payload in payloads])
    ends = np.cumsum(sizes)
    buffer = np.frombuffer(b"".join(payloads) + bytes(PADDING), np.uint8)
    rows = read_columns(buffer, np.arange(len(counts)), ends - sizes, ends, np.array(counts))
    keys = read_keys(rows)
    raw = buffer.tobytes()
    found = [
        None if n < 0 else raw[at : at + n] for at, n in zip(keys.start.tolist(), keys.length.tolist(), strict=True)
    ]
    columns = rows.batch.tolist(), rows.offset_delta.tolist(), rows.timestamp_delta.tolist(), found
    assert list(zip(*columns, strict=True)) == wanted
    assert rows.end.tolist()[-1] == len(raw) - PADDING
    assert rows.start.tolist()[1:] == rows.end.tolist()[:-1]


def test_timestamps_that_are_too_far_apart_to_be_read_together() -> None:
    usual = [Record(n, NOW + n, b"usual", b"v") for n in range(3)]
    far = [Record(0, -(1 << 61), b"far", b"v"), Record(1, 1 << 62, b"away", b"v")]
    payloads = [build(records)[61:] for records in (usual, far, usual)]
    sizes = np.array([len(payload) for payload in payloads])
    ends = np.cumsum(sizes)
    buffer = np.frombuffer(b"".join(payloads) + bytes(PADDING), np.uint8)
    rows = read_columns(buffer, np.arange(3), ends - sizes, ends, np.array([3, 2, 3]))
    assert rows.timestamp_delta.tolist() == [0, 1, 2, 0, 3 << 61, 0, 1, 2]
    assert rows.batch.tolist() == [0, 0, 0, 1, 1, 2, 2, 2]
    assert read_keys(rows).length.tolist() == [5, 5, 5, 3, 4, 5, 5, 5]


GOOD = b"\0" + encode_varint(0) + encode_varint(0) + encode_varint(1) + b"k" + encode_varint(1) + b"v" + b"\0"


@pytest.mark.parametrize(
    "records",
    [
        encode_varint(len(GOOD) + 1) + GOOD,
        encode_varint(len(GOOD) - 1) + GOOD,
        encode_varint(-3) + GOOD,
        encode_varint(0) + encode_varint(len(GOOD)) + GOOD,
        b"\xff" * 9,
        b"\x80" * 9,
        encode_varint(21) + b"\0" + b"\xff" * 20,
        encode_varint(22) + b"\0\0" + b"\xff" * 20,
        encode_varint(12) + b"\0\0\0" + encode_varint(1 << 29) + b"vvvv",
        encode_varint(9) + b"\0\0\0" + encode_varint(6) + b"vvvvv",
        encode_varint(9) + b"\0\0\0" + encode_varint(-7) + b"vvvvv",
        encode_varint(3) + b"\0\0\0",
    ],
)
@pytest.mark.parametrize("copies", [1, 100])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_records_that_cannot_be(tmp_path: Path, records: bytes, copies: int, codec: Codec) -> None:
    """A batch with a good CRC and one bad record is named, whether it is alone or one of many."""
    good = build([Record(0, NOW, b"k", b"v")])
    padded = records + bytes(32) if len(records) < 7 else records
    bad = bytearray(build([Record(0, NOW, b"k", b"v")], codec=codec)[:61]) + (
        padded if codec is Codec.NONE else gzip.compress(padded)
    )
    struct.pack_into(">i", bad, 8, len(bad) - 12)
    struct.pack_into(">I", bad, 17, crc32c(bytes(bad[21:])))
    files = Files(tmp_path)
    for number in range(copies):
        files.append(struct.pack(">q", number) + bytes(bad if number == copies // 2 else good)[8:], 1)
    files.roll()
    with pytest.raises(DamagedSegment) as raised:
        clean(files.job())
    assert raised.value.position == copies // 2 * len(good)


@pytest.mark.parametrize("count", [-1, 0, 2, 1 << 30])
def test_a_count_that_cannot_be(tmp_path: Path, count: int) -> None:
    data = bytearray(build([Record(0, NOW, b"k", b"v")]))
    struct.pack_into(">i", data, 57, count)
    struct.pack_into(">I", data, 17, crc32c(bytes(data[21:])))
    files = Files(tmp_path)
    files.append(bytes(data), 1)
    files.roll()
    with pytest.raises(DamagedSegment):
        clean(files.job())


def test_a_compressed_batch_without_records(tmp_path: Path) -> None:
    empty = bytearray(build([Record(0, NOW, b"k", b"v")], codec=Codec.GZIP)[:61])
    struct.pack_into(">i", empty, 8, len(empty) - 12)
    struct.pack_into(">i", empty, 57, 0)
    struct.pack_into(">I", empty, 17, crc32c(bytes(empty[21:])))
    files = Files(tmp_path)
    files.append(bytes(empty), 1)
    files.put((b"k", b"v"))
    files.roll()
    files.clean()
    assert [batch.base_offset for batch in files.batches()] == [1]


# Blocks and the throttle


@pytest.mark.parametrize("size", [1, 70, 100, 1000, 1 << 20])
def test_blocks_of_any_size(tmp_path: Path, size: int) -> None:
    files = Files(tmp_path)
    for number in range(20):
        files.put((b"%d" % number, bytes(number * 10)), magic=number % 3)
    files.roll()
    [source] = files.job().sources
    read: list[int] = []
    blocks = list(read_blocks(source, read.append, size))
    assert b"".join(bytes(block.raw(0, len(block))) for block in blocks) == files.path(0).read_bytes()
    assert np.concatenate([block.last_offsets for block in blocks]).tolist() == list(range(20))
    assert sum(read) >= source.size


def test_the_throttle_keeps_the_rate() -> None:
    now, slept = [100.0], list[float]()

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    throttle = Throttle(1000, lambda: now[0], sleep)
    for _ in range(10):
        throttle.spent(500)
    assert now[0] == pytest.approx(105)
    now[0] += 60
    throttle.spent(500)
    assert slept[-1] == pytest.approx(0.5)


def test_a_job_is_throttled_in_both_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slept = list[float]()
    monkeypatch.setattr(Throttle, "spent", lambda throttle, size: slept.append(size / throttle.bytes_per_second))
    files = Files(tmp_path)
    files.put((b"a", bytes(5000)), (b"a", bytes(5000)))
    files.roll()
    cleaned = files.clean(io_bytes_per_second=100)
    assert sum(slept) * 100 == pytest.approx(2 * 10_000 + cleaned.statistics.bytes_written, rel=0.02)
    assert cleaned.statistics.bytes_written > 5000
