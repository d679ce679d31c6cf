"""Checkpoint files: small texts in Kafka's format.

```
0                       version
2                       number of entries
events 0 1042           topic, partition, offset      (offset checkpoints of a log directory)
events 1 977
```

Files in a partition's directory have other fields on their lines; the last two are not Kafka's:

```
leader-epoch-checkpoint           epoch, start offset
cleaned-segments                  base offset of a compacted segment, base offsets of the segments that it replaces
aborted-transaction-checkpoint    segment's base offset, number of aborted transactions, CRC-32C of its index
```

Files are replaced atomically; writing blocks. `read_...` returns None without the file, and raises `DamagedFile` for an
unreadable one; callers continue without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from sys import intern
from typing import Final

from pylogbroker.errors import StorageFailure
from pylogbroker.java.text import is_digits
from pylogbroker.storage.files import read_file, replace_file

_VERSION: Final = "0"
_FIRST_EPOCH: Final = b"0\n1\n0 0\n"
TopicPartition = tuple[str, int]


class DamagedFile(StorageFailure):
    """Damaged file of the broker."""


def read_offsets(path: str) -> dict[TopicPartition, int] | None:
    lines = _read(path, fields=3)
    if lines is None:
        return None
    return {(intern(topic), _number(path, partition)): _number(path, offset) for topic, partition, offset in lines}


def write_offsets(path: str, offsets: Mapping[TopicPartition, int]) -> None:
    lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
    replace_file(path, _text(lines))


def read_epochs(path: str) -> list[tuple[int, int]] | None:
    """Return (epoch, start offset) pairs."""
    data = read_file(path)
    if data is None:
        return None
    if data == _FIRST_EPOCH:  # as most are: a start reads one for each log
        return [(0, 0)]
    return [(_number(path, epoch), _number(path, start)) for epoch, start in _lines(path, data, fields=2)]


def write_epochs(path: str, epochs: Iterable[tuple[int, int]]) -> None:
    """Leave the directory's sync to the caller."""
    replace_file(path, _text([f"{epoch} {start}" for epoch, start in epochs]), sync_name=False)


def read_swap(path: str) -> list[tuple[int, tuple[int, ...]]] | None:
    """Return a swap's commit record: new segments, each with the replaced ones."""
    lines = _read(path)
    if lines is None:
        return None
    rows = [[_number(path, field) for field in line] for line in lines]
    if not all(len(row) > 1 for row in rows):
        raise DamagedFile(f"{path}: a line without offsets")
    return [(base, tuple(replaced)) for base, *replaced in rows]


def write_swap(path: str, swap: Iterable[tuple[int, Sequence[int]]]) -> None:
    replace_file(path, _text([" ".join(map(str, (base, *replaced))) for base, replaced in swap]))


def read_aborted(path: str) -> dict[int, tuple[int, int]] | None:
    """Return number and CRC-32C of aborted transactions by segment."""
    lines = _read(path, fields=3)
    if lines is None:
        return None
    return {_number(path, base): (_number(path, count), _number(path, crc)) for base, count, crc in lines}


def write_aborted(path: str, aborted: Mapping[int, tuple[int, int]]) -> None:
    """Leave the directory's sync to the caller."""
    lines = [f"{base} {count} {crc}" for base, (count, crc) in aborted.items()]
    replace_file(path, _text(lines), sync_name=False)


def _text(lines: list[str]) -> bytes:
    return "\n".join([_VERSION, str(len(lines)), *lines, ""]).encode()


def _read(path: str, fields: int | None = None) -> list[list[str]] | None:
    data = read_file(path)
    return None if data is None else _lines(path, data, fields)


def _lines(path: str, data: bytes, fields: int | None) -> list[list[str]]:
    lines = [line.split() for line in data.decode("utf-8", "replace").splitlines()]
    whole = data.endswith(b"\n")  # else the last number may be cut off
    if not whole or lines[:1] != [[_VERSION]] or lines[1:2] != [[str(len(lines) - 2)]]:
        raise DamagedFile(f"{path}: not a complete checkpoint of version {_VERSION}")
    if fields is not None and any(len(line) != fields for line in lines[2:]):
        raise DamagedFile(f"{path}: a line without {fields} fields")
    return lines[2:]


def _number(path: str, text: str) -> int:
    if not is_digits(text):
        raise DamagedFile(f"{path}: {text!r} is not a number")
    return int(text)
