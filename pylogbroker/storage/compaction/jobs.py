"""What the broker asks of the cleaner's process, and what it is told: values, and the lines of JSON that carry them.

```
stdin    {"directory": ..., "sources": [[base offset, path, size, modified ms], ...], ...}      a Job
stdout   {"replacements": [[[base offsets], base offset, size], ...], ...}                      Cleaned
         {"failed": detail, "path": ..., "position": ...}                                       Failed
```

One line for each job, and one, in the same order, for each outcome.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from pylogbroker.storage.log.transaction_index import AbortedTxn

NO_LIMIT: Final = 1 << 62  # bytes a second, for a cleaner that is not held back


@attrs.frozen
class SourceSegment:
    """A sealed segment as it is to be cleaned: its file of entries, and that file's size and modification time."""

    base_offset: int
    path: str
    size: int
    modified_ms: int


@attrs.frozen
class CleanerJob:
    """One cleaning of one log.

    `sources` are all of the log's segments below `end_offset`, the first offset that must stay as it is, oldest first.
    What is below `first_dirty_offset` holds each key once already.

    `last_sequences` tells for each living producer the last offset of the batch that holds its last sequence: that
    batch stays, empty if need be.  An empty marker would say nothing: who only wrote markers is known from snapshots.

    `aborted` are transactions with data below `end_offset` whose markers lie behind the sources, so that the sources'
    transaction indexes do not know them.  Others do no harm.
    """

    directory: str
    sources: tuple[SourceSegment, ...]
    first_dirty_offset: int
    end_offset: int
    now_ms: int
    delete_retention_ms: int = 24 * 3600 * 1000
    segment_bytes: int = 1 << 30
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    dedupe_bytes: int = 128 << 20
    io_bytes_per_second: int = NO_LIMIT
    last_sequences: Mapping[int, int] = attrs.field(factory=dict)
    aborted: tuple[AbortedTxn, ...] = ()

    @property
    def bounded(self) -> Iterator[tuple[SourceSegment, int]]:
        """The sources, and the offset behind each."""
        return zip(self.sources, (*(source.base_offset for source in self.sources[1:]), self.end_offset), strict=False)

    def to_json(self) -> str:
        """One line, without its end."""
        fields = attrs.asdict(self, recurse=False)
        fields["sources"] = [attrs.astuple(source) for source in self.sources]
        fields["last_sequences"] = list(self.last_sequences.items())
        return json.dumps(fields)

    @classmethod
    def from_json(cls, line: str | bytes) -> CleanerJob:
        """The job in a line that `to_json` made."""
        fields: dict[str, Any] = json.loads(line)
        fields["sources"] = tuple(SourceSegment(*each) for each in fields["sources"])
        fields["last_sequences"] = dict(fields["last_sequences"])
        fields["aborted"] = tuple(AbortedTxn(*each) for each in fields["aborted"])
        return cls(**fields)


@attrs.frozen
class Replacement:
    """New files, `<base_offset>.kafka.cleaned` and its indexes, for the segments with the base offsets `replaced`."""

    replaced: tuple[int, ...]
    base_offset: int
    size: int  # of the file of entries


@attrs.frozen
class Statistics:
    """What a cleaning did."""

    records_read: int = 0
    records_kept: int = 0
    bytes_read: int = 0  # of entries, in the second pass
    bytes_written: int = 0  # of these, those that stay, also where all of a segment does
    dirty_bytes: int = 0  # read to learn the keys
    keys: int = 0  # different ones in the dirty part
    without_key: int = 0  # records that were dropped because they have none
    map_full: bool = False  # the dirty part did not fit, another cleaning is due
    map_seconds: float = 0.0
    seconds: float = 0.0


@attrs.frozen
class Cleaned:
    """A cleaning that is ready to be swapped in.

    Sources that no replacement names are as they should be, and stay.  `first_dirty_offset` says how far it got.
    """

    replacements: tuple[Replacement, ...]
    first_dirty_offset: int
    statistics: Statistics = Statistics()

    def to_json(self) -> str:
        """One line, without its end."""
        return json.dumps(attrs.asdict(self) | {"replacements": [attrs.astuple(each) for each in self.replacements]})

    @classmethod
    def from_json(cls, line: str | bytes) -> Cleaned:
        """The outcome in a line that `to_json` made."""
        fields: dict[str, Any] = json.loads(line)
        replacements = tuple(Replacement(tuple(each[0]), *each[1:]) for each in fields["replacements"])
        return cls(replacements, fields["first_dirty_offset"], Statistics(**fields["statistics"]))


@attrs.frozen
class Failed:
    """A cleaning that came to nothing; at most `.cleaned` files are left of it."""

    detail: str
    path: str | None = None  # the damaged file
    position: int | None = None  # where in it

    def __str__(self) -> str:
        where = "" if self.path is None else f"{self.path} at {self.position}: "
        return where + self.detail

    def to_json(self) -> str:
        """One line, without its end."""
        return json.dumps({"failed": self.detail, "path": self.path, "position": self.position})


def outcome(line: str | bytes) -> Cleaned | Failed:
    """What the cleaner's process said of a job."""
    fields: dict[str, Any] = json.loads(line)
    if "failed" in fields:
        return Failed(fields["failed"], fields["path"], fields["position"])
    return Cleaned.from_json(line)
