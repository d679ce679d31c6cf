"""Verify the files of a stopped broker. Reads all of them, and writes nothing.

    checkpoints       readable; no offset is beyond its log's end
    segments          each batch is complete and has its CRC; offsets only rise, also from segment to segment
    offset index      each entry has a batch's last offset and position
    time index        timestamps and offsets rise, and are those of the segment
    transaction index, producer snapshots, leader epochs, topic id    readable and possible

Partitions in the format of Kafka 0.7 are left out: their offsets are byte positions.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from struct import Struct
from typing import Final

import attrs

from pylogbroker.config import BrokerConfig
from pylogbroker.errors import CorruptRecords, StorageFailure
from pylogbroker.offline.stopped_broker import check_stopped
from pylogbroker.records import Buffer, entries
from pylogbroker.storage import names
from pylogbroker.storage.checkpoints import TopicPartition, read_epochs, read_offsets
from pylogbroker.storage.log import producer_snapshots
from pylogbroker.storage.log.partition_metadata import read_topic_id
from pylogbroker.storage.log.transaction_index import TransactionIndex

OFFSET_ENTRY: Final = Struct(">II")
TIME_ENTRY: Final = Struct(">qI")

_CHECKPOINTS: Final = (names.RECOVERY_POINTS, names.LOG_STARTS, names.HIGH_WATERMARKS, names.CLEANER_CHECKPOINT)


@attrs.frozen
class Problem:
    """Damage of a file; `position` is that in bytes, or None."""

    path: str
    position: int | None
    text: str


@attrs.define
class VerificationReport:
    partitions: int = 0
    segments: int = 0
    batches: int = 0
    bytes: int = 0
    left_out: list[str] = attrs.field(factory=list)
    problems: list[Problem] = attrs.field(factory=list)

    def note(self, path: str, text: object, position: int | None = None) -> None:
        self.problems.append(Problem(path, position, str(text)))

    @contextmanager
    def noting(self, path: str) -> Iterator[None]:
        """Note what a reader raises for a damaged file."""
        try:
            yield
        except (CorruptRecords, StorageFailure, ValueError, OSError) as error:
            self.note(path, error)


def verify(config: BrokerConfig, progress: Callable[[str, int], object]) -> VerificationReport:
    """Verify all log directories; report each partition and its bytes. Raise StartupError if the broker runs."""
    check_stopped(config)
    report = VerificationReport()
    for directory in config.log_dirs:
        ends = {}
        for name in sorted(os.listdir(directory)):
            key = names.parse_partition_directory(name)
            if key is None:
                continue
            path = f"{directory}/{name}"
            if os.path.exists(f"{path}/{names.MESSAGE_FORMAT}"):
                report.left_out.append(path)
                continue
            before = report.bytes
            ends[key] = _verify_partition(path, report)
            progress(path, report.bytes - before)
        _verify_checkpoints(directory, ends, report)
    return report


def bytes_to_verify(config: BrokerConfig) -> int:
    """Return the sizes of all segments that `verify` reads."""
    return sum(
        os.path.getsize(f"{path}/{name}")
        for directory in config.log_dirs
        if os.path.isdir(directory)
        for path in (
            f"{directory}/{child}" for child in os.listdir(directory) if names.parse_partition_directory(child)
        )
        if not os.path.exists(f"{path}/{names.MESSAGE_FORMAT}")
        for name in os.listdir(path)
        if name.endswith(names.RECORDS)
    )


def _verify_partition(path: str, report: VerificationReport) -> int:
    """Verify a partition's directory; return the log's end offset."""
    report.partitions += 1
    files = sorted(parsed for name in os.listdir(path) if (parsed := names.parse_file(name)) is not None)
    end = -1
    for base, suffix in files:
        if suffix == names.RECORDS:
            file = names.file_of(path, base, suffix)
            if base < end:
                report.note(file, f"begins below offset {end}, where the segment before it ends")
            end = _verify_segment(path, base, report)
        elif suffix == names.SNAPSHOT:
            with report.noting(names.file_of(path, base, suffix)):
                producer_snapshots.read(names.file_of(path, base, suffix))
    with report.noting(path):
        read_topic_id(path)
    epochs_file = f"{path}/{names.LEADER_EPOCHS}"
    with report.noting(epochs_file):
        epochs = read_epochs(epochs_file) or []
        if any(one >= two for one, two in pairwise(epochs)):
            report.note(epochs_file, "epochs do not rise")
    return max(end, 0)


def _verify_segment(path: str, base: int, report: VerificationReport) -> int:
    file = names.file_of(path, base, names.RECORDS)
    report.segments += 1
    places: dict[int, int] = {}  # last offsets by position
    next_offset, largest, position = base, -1, 0
    with report.noting(file), mapped(file) as data:
        report.bytes += len(data)
        for entry in entries(data):
            report.batches += 1
            try:
                entry.check()
            except CorruptRecords as error:
                report.note(file, error, position)
            if entry.base_offset < next_offset and entry.magic == 2:
                report.note(file, f"a batch begins at offset {entry.base_offset}, below {next_offset}", position)
            places[position] = entry.last_offset
            next_offset, largest = max(next_offset, entry.next_offset), max(largest, entry.max_timestamp)
            position += entry.size
            del entry  # a view of the file, which is unmapped only without views
    _verify_offset_index(names.file_of(path, base, names.OFFSET_INDEX), base, places, report)
    _verify_time_index(names.file_of(path, base, names.TIME_INDEX), base, next_offset, largest, report)
    index = names.file_of(path, base, names.TRANSACTION_INDEX)
    if os.path.exists(index):
        with report.noting(index):
            TransactionIndex(index, os.path.getsize(index)).check(base, next_offset)
    return next_offset


def _verify_offset_index(path: str, base: int, places: dict[int, int], report: VerificationReport) -> None:
    for number, (relative, position) in enumerate(_index(path, OFFSET_ENTRY, report)):
        if places.get(position) != base + relative:
            text = f"the entry of offset {base + relative} names position {position}, where no batch ends with it"
            report.note(path, text, number * OFFSET_ENTRY.size)


def _verify_time_index(path: str, base: int, next_offset: int, largest: int, report: VerificationReport) -> None:
    last = (-1, -1)
    for number, (timestamp, relative) in enumerate(_index(path, TIME_ENTRY, report)):
        if timestamp <= last[0] or relative < last[1] or timestamp > largest or base + relative >= next_offset:
            text = f"the entry of timestamp {timestamp} and offset {base + relative} contradicts the segment"
            report.note(path, text, number * TIME_ENTRY.size)
        last = timestamp, relative


def _index(path: str, layout: Struct, report: VerificationReport) -> Iterator[tuple[int, int]]:
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return  # made again when the log is opened
    if len(data) % layout.size:
        report.note(path, f"{len(data)} bytes are not a whole number of entries")
    yield from layout.iter_unpack(data[: len(data) // layout.size * layout.size])


def _verify_checkpoints(directory: str, ends: dict[TopicPartition, int], report: VerificationReport) -> None:
    for name in _CHECKPOINTS:
        path = f"{directory}/{name}"
        with report.noting(path):
            for (topic, partition), offset in (read_offsets(path) or {}).items():
                end = ends.get((topic, partition))
                if end is not None and offset > end:
                    report.note(path, f"{topic}/{partition} is at offset {offset}, beyond its log's end {end}")


@contextmanager
def mapped(path: str) -> Iterator[Buffer]:
    """Map a file for reading."""
    with open(path, "rb") as file:
        if not os.fstat(file.fileno()).st_size:
            yield b""
            return
        mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        try:
            yield memoryview(mapping)
        finally:
            with suppress(BufferError):  # an error's traceback may hold a view: the mapping goes with it
                mapping.close()
