"""The records in the files of replicas, read without any code of a broker, and their comparison.

Both brokers' segments hold the same bytes: entries of the formats that Fetch sends.  Directories are `topic-0` with
`.log` files (Apache Kafka), or `topic_0` with `.kafka` files (this project's broker).  kafka-python decodes them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import attrs
from kafka.record import MemoryRecords

from tests.crash.checks import Violation
from tests.crash.content import whole_entries
from tests.crash.history import Partition

_DIRECTORY: Final = re.compile(r"(.+)[-_](\d+)")


class DamagedLog(Exception):
    """A replica's file has an entry with a wrong checksum."""


@attrs.frozen
class LogRecord:
    """A record as a replica has it.  The last fields are -1 in formats before v2, or without a producer id."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    is_control: bool = False
    leader_epoch: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    sequence: int = -1


def partition_directories(data_dir: Path) -> dict[Partition, Path]:
    """Return the directories of all partitions; those that are being deleted are left out."""
    found = [(path, _DIRECTORY.fullmatch(path.name)) for path in sorted(data_dir.iterdir()) if path.is_dir()]
    return {(match[1], int(match[2])): path for path, match in found if match}


def read_directory(directory: Path, suffix: str) -> list[LogRecord]:
    """Return the records in all segments of a partition; an entry that is not whole at the end is left out."""
    segments = sorted(path for path in directory.glob(f"*{suffix}") if re.fullmatch(r"\d{20}", path.stem))
    return [record for path in segments for record in records_in(path.read_bytes(), str(path))]


def records_in(data: bytes, source: str = "") -> Iterator[LogRecord]:
    """Yield the records in the bytes of a segment; DamagedLog if a checksum is wrong."""
    for entry in whole_entries(data):
        batch = MemoryRecords(entry).next_batch()
        if not batch.validate_crc():
            raise DamagedLog(f"{source}: the entry at offset {batch.base_offset} has a wrong checksum")
        yield from _records_of(batch)


def _records_of(batch: Any) -> Iterator[LogRecord]:
    if batch.magic < 2:
        for record in batch:
            yield LogRecord(record.offset, record.timestamp or -1, record.key, record.value)
        return
    for record in batch:
        yield LogRecord(
            offset=record.offset,
            timestamp=record.timestamp,
            key=record.key,
            value=record.value,
            headers=tuple((name, value) for name, value in record.headers),
            is_control=batch.is_control_batch,
            leader_epoch=batch.leader_epoch,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            sequence=batch.base_sequence + record.offset - batch.base_offset if batch.base_sequence >= 0 else -1,
        )


def compare_replicas(
    replicas: Mapping[int, Sequence[LogRecord]], high_watermark: int, *, compacted: bool = False
) -> Iterator[Violation]:
    """Compare the replicas of a partition, by broker id, record by record.

    | kind           | violation                                                                                 |
    |----------------|-------------------------------------------------------------------------------------------|
    | diverged       | below the high watermark, replicas have different records at an offset                    |
    | absent         | below it, a replica lacks a record that another has; compacted replicas may               |
    | epoch conflict | anywhere, replicas have different records of one leader epoch at an offset                |
    | order          | a replica's offsets or leader epochs go back                                              |
    """
    for number, records in replicas.items():
        yield from _check_order(number, records)
    problems: dict[str, list[str]] = defaultdict(list)
    for offset, found in _by_offset(replicas).items():
        different = set(found.values())
        lacking = sorted(replicas.keys() - found.keys())
        if offset < high_watermark and len(different) > 1:
            problems["diverged"].append(f"{offset}: {found}")
        if offset < high_watermark and lacking and not compacted:
            problems["absent"].append(f"{offset}: brokers {lacking} lack {different}")
        if len(different) > len({record.leader_epoch for record in different}):
            problems["epoch conflict"].append(f"{offset}: {found}")
    for kind, places in problems.items():
        yield Violation(
            kind, f"{len(places)} offsets, the high watermark is {high_watermark}; the first is {places[0]}"
        )


def _by_offset(replicas: Mapping[int, Sequence[LogRecord]]) -> Mapping[int, Mapping[int, LogRecord]]:
    found: dict[int, dict[int, LogRecord]] = defaultdict(dict)
    for number, records in replicas.items():
        for record in records:
            found[record.offset][number] = record
    return dict(sorted(found.items()))


def _check_order(number: int, records: Sequence[LogRecord]) -> Iterator[Violation]:
    for before, record in pairwise(records):
        if record.offset <= before.offset or record.leader_epoch < before.leader_epoch:
            yield Violation("order", f"broker {number} has {record} behind {before}")
            return
