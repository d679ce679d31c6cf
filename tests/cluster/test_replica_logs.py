"""Replicas' files are read as they are, and each difference between replicas has its name."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs
import pytest
from kafka.record.default_records import DefaultRecordBatchBuilder

from tests.cluster.replica_logs import DamagedLog, LogRecord, compare_replicas, partition_directories, read_directory

EPOCH_PLACE = 12


def batch(base_offset: int, values: Sequence[bytes], leader_epoch: int = 3, producer_id: int = -1) -> bytes:
    """A v2 batch; its base offset and leader epoch are not covered by the checksum."""
    sequence = -1 if producer_id < 0 else base_offset
    builder = DefaultRecordBatchBuilder(2, 0, False, producer_id, 0 if producer_id >= 0 else -1, sequence, 1 << 20)
    for delta, value in enumerate(values):
        builder.append(delta, 1000 + base_offset + delta, b"key", value, [("name", b"header")])
    data = bytearray(builder.build())
    struct.pack_into(">q", data, 0, base_offset)
    struct.pack_into(">i", data, EPOCH_PLACE, leader_epoch)
    return bytes(data)


@pytest.mark.parametrize(("name", "suffix"), [("some_topic-2", ".log"), ("some_topic_2", ".kafka")])
def test_records_of_all_segments_of_both_brokers(tmp_path: Path, name: str, suffix: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / "some_topic-3.0123456789abcdef-delete").mkdir()
    (tmp_path / name / f"{0:020}{suffix}").write_bytes(batch(0, [b"a", b"b"], producer_id=7))
    (tmp_path / name / f"{2:020}{suffix}").write_bytes(batch(2, [b"c"], leader_epoch=4) + batch(3, [b"not whole"])[:-1])
    (tmp_path / name / f"{2:020}.index").write_bytes(b"no segment")
    [(partition, path)] = partition_directories(tmp_path).items()
    assert partition == ("some_topic", 2)
    first = LogRecord(0, 1000, b"key", b"a", (("name", b"header"),), False, 3, 7, 0, 0)
    assert read_directory(path, suffix) == [
        first,
        attrs.evolve(first, offset=1, timestamp=1001, value=b"b", sequence=1),
        LogRecord(2, 1002, b"key", b"c", (("name", b"header"),), False, 4),
    ]


def test_a_wrong_checksum_is_an_error(tmp_path: Path) -> None:
    data = bytearray(batch(0, [b"value"]))
    data[-8] ^= 1
    (tmp_path / f"{0:020}.log").write_bytes(data)
    with pytest.raises(DamagedLog, match=r"0\.log: the entry at offset 0"):
        read_directory(tmp_path, ".log")


def records(*values: str, first: int = 0, epoch: int = 1) -> list[LogRecord]:
    return [LogRecord(at, at, None, value.encode(), leader_epoch=epoch) for at, value in enumerate(values, first)]


SAME = records("a", "b", "c")


@pytest.mark.parametrize(
    ("replicas", "high_watermark", "kinds"),
    [
        ({1: SAME, 2: SAME}, 3, []),
        ({1: SAME, 2: SAME[:2]}, 2, []),
        ({1: SAME, 2: SAME[:2]}, 3, ["absent"]),
        ({1: SAME, 2: [SAME[0], SAME[2]]}, 3, ["absent"]),
        ({1: SAME, 2: records("a", "x", "c", epoch=1)}, 3, ["diverged", "epoch conflict"]),
        ({1: SAME, 2: [*SAME[:2], *records("c", first=2, epoch=2)]}, 3, ["diverged"]),
        ({1: SAME, 2: [*SAME[:2], *records("x", first=2, epoch=2)]}, 2, []),
        ({1: SAME, 2: [*SAME[:2], *records("x", first=2)]}, 2, ["epoch conflict"]),
        ({1: [SAME[1], SAME[0]], 2: SAME[:2]}, 2, ["order"]),
        ({1: [*records("a", epoch=2), SAME[1]], 2: []}, 0, ["order"]),
    ],
)
def test_each_difference_has_its_name(
    replicas: Mapping[int, Sequence[LogRecord]], high_watermark: int, kinds: Sequence[str]
) -> None:
    assert [violation.kind for violation in compare_replicas(replicas, high_watermark)] == list(kinds)


def test_compacted_replicas_may_lack_records_and_not_differ() -> None:
    assert list(compare_replicas({1: SAME, 2: SAME[1:]}, 3, compacted=True)) == []
    changed = [SAME[0], *records("x", first=1)]
    assert [each.kind for each in compare_replicas({1: SAME, 2: changed}, 2, compacted=True)] == [
        "diverged",
        "epoch conflict",
    ]
