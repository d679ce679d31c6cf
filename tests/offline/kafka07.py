"""Log directories of Kafka 0.7, made byte by byte."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from pathlib import Path

from tests.legacy07.message_sets import message, wrapped


def payload(topic: str, partition: int, number: int) -> bytes:
    return f"{topic}/{partition} message {number} ".encode() * (1 + number % 5)


@functools.cache  # gzip notes the time
def messages(topic: str, partition: int, count: int) -> list[bytes]:
    """Messages of every kind that Kafka 0.7 wrote; every tenth is a compressed set."""
    made = []
    for number in range(count):
        value = payload(topic, partition, number)
        if number % 10 == 9:
            made.append(wrapped([value, value + b"again"], 1 + number // 10 % 2))
        else:
            made.append(message(value, number % 2))
    return made


def values(topic: str, partition: int, count: int) -> list[bytes]:
    """The values that readers of these messages get."""
    found = []
    for number in range(count):
        value = payload(topic, partition, number)
        found += [value, value + b"again"] if number % 10 == 9 else [value]
    return found


def write_partition(
    path: Path, data: Sequence[bytes], *, per_segment: int = 40, start: int = 0, digits: int = 20
) -> int:
    """Write segments of so many messages each; the stream begins at a position. Returns where it ends."""
    path.mkdir(parents=True)
    position = start
    for first in range(0, len(data), per_segment):
        segment = b"".join(data[first : first + per_segment])
        file = path / f"{position:0{digits}d}.kafka"
        file.write_bytes(segment)
        os.utime(file, (1_300_000_000, 1_300_000_000))  # of 2011
        position += len(segment)
    return position


def content(directory: Path) -> dict[str, tuple[bytes, int]]:
    """All files below a directory, with the times when they were written."""
    files = (path for path in sorted(directory.rglob("*")) if path.is_file())
    return {str(path.relative_to(directory)): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}
