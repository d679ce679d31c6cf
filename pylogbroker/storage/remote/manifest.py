"""Manifest of a remote segment: what its other objects contain, with checksums.

The text is JSON of one line, and a second line with the CRC-32C of the first:

```
{"version": 1, "topic": "events", "partition": 0, "base_offset": 0, ...}
crc32c 1d0f5a3c
```

| field             | meaning                                                                              |
|-------------------|--------------------------------------------------------------------------------------|
| `topic`           | name of the topic, for people: the topic's id is in the name of the object           |
| `size`            | bytes of record batches                                                              |
| `max_timestamp`   | largest timestamp of a record; -1 without timestamps                                 |
| `epochs`          | leader epochs of the records, as pairs of an epoch and its first offset              |
| `first_aborted`   | smallest first offset of the aborted transactions whose markers it has; -1 without   |
| `copied_ms`       | time of the copy                                                                     |
| `index_size`      | bytes of the object with the indexes                                                 |
| `index_crc32c`    | its checksum                                                                         |
"""

from __future__ import annotations

import json
from itertools import pairwise
from sys import intern
from typing import Any, Final

import attrs

from pylogbroker.errors import CorruptRecords
from pylogbroker.records import crc32c
from pylogbroker.storage.remote.object_names import SegmentName

VERSION: Final = 1
BYTES_MAX: Final = 4 << 20
INDEX_BYTES_MAX: Final = 256 << 20
_SEGMENT_BYTES_MAX: Final = 2**31 - 1 + (1 << 20)
_EPOCHS_MAX: Final = 100_000
_EPOCH_MAX: Final = 2**31 - 1
_NUMBER_MAX: Final = 2**63 - 1
Epochs = tuple[tuple[int, int], ...]


class DamagedObject(CorruptRecords):
    """An object of a remote storage does not have the content that was written."""


@attrs.frozen
class RemoteSegment:
    """A segment in the remote storage, by its manifest."""

    name: SegmentName
    topic: str
    partition: int
    size: int
    max_timestamp: int
    epochs: Epochs
    first_aborted: int
    copied_ms: int
    index_size: int
    index_crc32c: int

    @property
    def base_offset(self) -> int:
        return self.name.base_offset

    @property
    def end_offset(self) -> int:
        return self.name.end_offset


def encode(segment: RemoteSegment) -> bytes:
    fields = {
        "version": VERSION,
        "topic": segment.topic,
        "partition": segment.partition,
        "base_offset": segment.base_offset,
        "end_offset": segment.end_offset,
        "size": segment.size,
        "max_timestamp": segment.max_timestamp,
        "epochs": segment.epochs,
        "first_aborted": segment.first_aborted,
        "copied_ms": segment.copied_ms,
        "index_size": segment.index_size,
        "index_crc32c": segment.index_crc32c,
    }
    line = json.dumps(fields).encode() + b"\n"
    return line + b"crc32c %08x\n" % crc32c(line)


def decode(name: SegmentName, partition: int, data: bytes) -> RemoteSegment:
    """Raise DamagedObject unless this is a manifest of that segment and partition."""
    line, newline, end = data.partition(b"\n")
    if not newline or end != b"crc32c %08x\n" % crc32c(line + newline):
        raise DamagedObject(f"the manifest of {name} is incomplete or damaged")
    try:
        fields = json.loads(line)
        if fields["version"] != VERSION:
            raise DamagedObject(
                f"the manifest of {name} has version {fields['version']!r}; this broker knows {VERSION}"
            )
        segment = RemoteSegment(
            name,
            intern(str(fields["topic"])),
            _number(fields["partition"]),
            _number(fields["size"], 1, _SEGMENT_BYTES_MAX),
            _number(fields["max_timestamp"], -1),
            _epochs(fields["epochs"]),
            _number(fields["first_aborted"], -1),
            _number(fields["copied_ms"]),
            _number(fields["index_size"], 1, INDEX_BYTES_MAX),
            _number(fields["index_crc32c"]),
        )
        offsets = _number(fields["base_offset"]), _number(fields["end_offset"])
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise DamagedObject(f"the manifest of {name} has no valid fields: {error!r}") from error
    if offsets != (name.base_offset, name.end_offset) or segment.partition != partition:
        raise DamagedObject(f"the manifest of {name} is that of another segment")
    if not _are_of(segment.epochs, name):
        raise DamagedObject(f"the manifest of {name} has leader epochs that are not those of its records")
    return segment


def _number(value: Any, low: int = 0, high: int = _NUMBER_MAX) -> int:
    if type(value) is not int or not low <= value <= high:
        raise ValueError(f"{value!r} is not a number from {low} to {high}")
    return value


def _epochs(pairs: Any) -> Epochs:
    if not isinstance(pairs, list) or len(pairs) > _EPOCHS_MAX:
        raise ValueError(f"the leader epochs are no list of at most {_EPOCHS_MAX}")
    return tuple((_number(epoch, -1, _EPOCH_MAX), _number(start)) for epoch, start in pairs)


def _are_of(epochs: Epochs, name: SegmentName) -> bool:
    """Return whether epochs and their offsets increase, from the segment's first offset on."""
    if not epochs or epochs[0][1] != name.base_offset or epochs[-1][1] >= name.end_offset:
        return False
    return all(epoch < later and start < later_start for (epoch, start), (later, later_start) in pairwise(epochs))
