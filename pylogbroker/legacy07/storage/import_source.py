"""Reader and verifier of log directories of Kafka 0.7. Writes nothing.

Like recovery, the check stops at the first fault: a truncated message, a wrong CRC, or a gap before a segment.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import pairwise

import attrs

from pylogbroker.errors import CorruptRecords, InvalidRecords, PylogbrokerError
from pylogbroker.legacy07.storage import directories
from pylogbroker.legacy07.storage.addressing import ADDRESSING
from pylogbroker.records import LogEntry
from pylogbroker.storage import FileHandle, Pools, names
from pylogbroker.storage.log.segment import RELATIVE_OFFSET_MAX
from pylogbroker.storage.log.segment_file import SegmentFile


class Kafka07SourceError(PylogbrokerError):
    """Kafka 0.7's directories cannot be imported; the message gives reason and cure."""


@attrs.frozen
class Kafka07LogDirectory:
    """Log directory, and its broker's `brokerid`."""

    broker: int
    path: str


@attrs.frozen
class Kafka07Segment:
    """`sound` counts leading bytes with complete messages and correct CRCs."""

    path: str
    position: int
    size: int
    sound: int
    messages: int


@attrs.frozen
class Kafka07Partition:
    """Partition with its sound segments.

    `damage` says why bytes are `left_out`. `unreadable` are positions of compressed messages with a correct CRC but
    damaged contents: their producer wrote them so.
    """

    source: Kafka07LogDirectory
    topic: str
    number: int
    path: str
    segments: tuple[Kafka07Segment, ...]
    damage: str = ""
    left_out: int = 0
    unreadable: tuple[int, ...] = ()

    @property
    def start(self) -> int:
        return self.segments[0].position if self.segments else 0

    @property
    def end(self) -> int:
        return self.segments[-1].position + self.segments[-1].sound if self.segments else 0

    @property
    def messages(self) -> int:
        """Sound messages; a compressed one counts once."""
        return sum(segment.messages for segment in self.segments)


def find_partitions(source: Kafka07LogDirectory) -> dict[tuple[str, int], str]:
    """Return directories by topic and partition; raise Kafka07SourceError if there are none."""
    paths: dict[tuple[str, int], str] = {}
    for name in sorted(_listed(source.path)):
        key = directories.parse_directory(name)
        path = f"{source.path}/{name}"
        if key is None or not os.path.isdir(path) or _is_own(path) or not directories.segments_in(path):
            continue
        other = paths.setdefault(key, path)
        if other != path:
            raise Kafka07SourceError(
                f"{other} and {path} are the same partition: move one of them out of {source.path}"
            )
    if not paths:
        raise Kafka07SourceError(_nothing_in(source.path))
    return paths


def _listed(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except OSError as error:
        raise Kafka07SourceError(f"{path}: {error.strerror}") from error


def _is_own(path: str) -> bool:
    return any(os.path.exists(f"{path}/{mark}") for mark in (names.PARTITION_METADATA, names.MESSAGE_FORMAT))


def _nothing_in(path: str) -> str:
    if directories.segments_in(path):
        return f"{path} is a partition's directory: name the log directory above it"
    return (
        f"{path} holds no data of Kafka 0.7: expected directories such as my_topic-0 with files such as "
        "00000000000000000000.kafka in them; the data of newer releases (.log) cannot be imported"
    )


def examine_partition(source: Kafka07LogDirectory, topic: str, number: int, path: str) -> Kafka07Partition:
    """Read a partition and check every CRC; raise Kafka07SourceError for contradictory files."""
    files = directories.segments_in(path)
    for (position, name), (other, twin) in pairwise(files):
        if position == other:
            raise Kafka07SourceError(f"{path}: {name} and {twin} have the same position: remove one of them")
    segments: list[Kafka07Segment] = []
    unreadable: list[int] = []
    damage, rest = "", []
    for at, (position, name) in enumerate(files):
        if segments and position != segments[-1].position + segments[-1].sound:
            damage = f"{name} begins at {position}, where {segments[-1].position + segments[-1].sound} is expected"
            rest = files[at:]
            break
        segment, damage = _examine_segment(f"{path}/{name}", position, unreadable)
        segments.append(segment)
        if damage:
            damage, rest = f"{name}: {damage}", files[at + 1 :]
            break
    left_out = sum(segment.size - segment.sound for segment in segments) + _total(path, rest)
    return Kafka07Partition(source, topic, number, path, tuple(segments), damage, left_out, tuple(unreadable))


def _total(path: str, files: Sequence[tuple[int, str]]) -> int:
    return sum(os.path.getsize(f"{path}/{name}") for _, name in files)


def _examine_segment(path: str, position: int, unreadable: list[int]) -> tuple[Kafka07Segment, str]:
    size = os.path.getsize(path)
    if size > RELATIVE_OFFSET_MAX:
        raise Kafka07SourceError(f"{path} has {size} bytes: a segment of this broker has at most {RELATIVE_OFFSET_MAX}")
    sound = messages = 0
    damage = ""
    try:
        for message in _messages(path, position, size):
            message.check()
            if message.attributes and not _is_readable(message):
                unreadable.append(message.base_offset)
            sound += message.size
            messages += 1
    except CorruptRecords as error:
        damage = error.detail
    return Kafka07Segment(path, position, size, sound, messages), damage


def _messages(path: str, position: int, size: int) -> Iterator[LogEntry]:
    file = SegmentFile(os.path.dirname(path), position, Pools.of(), ADDRESSING)
    file.keep_open(FileHandle.open(path))
    yield from file.entries(size)


def _is_readable(message: LogEntry) -> bool:
    try:
        return sum(1 for _ in message.records()) <= message.size
    except (CorruptRecords, InvalidRecords):
        return False
