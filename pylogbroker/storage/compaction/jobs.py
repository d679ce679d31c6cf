"""Jobs of the cleaner process and their outcomes, one line of JSON each, in the same order.

```
stdin    {"directory": ..., "sources": [[base offset, path, size, modified ms], ...], ...}      CleanerJob
stdout   {"replacements": [[[base offsets], base offset, size], ...], ...}                      Cleaned
         {"failed": detail, "path": ..., "position": ...}                                       Failed
```
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from pylogbroker.storage.log.segment_swap import Replacement
from pylogbroker.storage.log.transaction_index import AbortedTxn

NO_LIMIT: Final = 1 << 62  # bytes per second


@attrs.frozen
class SourceSegment:
    """Record file of a sealed segment."""

    base_offset: int
    path: str
    size: int
    modified_ms: int


@attrs.frozen
class CleanerJob:
    """One cleaning of one log.

    `sources` are all segments below `end_offset`, oldest first. Below `first_dirty_offset` each key occurs once.

    `last_sequences` has the last offset of each active producer's last batch, which stays, if need be empty. Producers
    of only markers are restored from snapshots: an emptied marker would not do.

    `aborted` are transactions with data below `end_offset` and a marker after the sources, whose indexes lack them.
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
        return zip(self.sources, (*(source.base_offset for source in self.sources[1:]), self.end_offset), strict=False)

    def to_json(self) -> str:
        fields = attrs.asdict(self, recurse=False)
        fields["sources"] = [attrs.astuple(source) for source in self.sources]
        fields["last_sequences"] = list(self.last_sequences.items())
        return json.dumps(fields)

    @classmethod
    def from_json(cls, line: str | bytes) -> CleanerJob:
        fields: dict[str, Any] = json.loads(line)
        fields["sources"] = tuple(SourceSegment(*source) for source in fields["sources"])
        fields["last_sequences"] = dict(fields["last_sequences"])
        fields["aborted"] = tuple(AbortedTxn(*transaction) for transaction in fields["aborted"])
        return cls(**fields)


@attrs.frozen
class Statistics:
    records_read: int = 0
    records_kept: int = 0
    bytes_read: int = 0  # in the second pass
    bytes_written: int = 0  # also in unchanged segments
    keys: int = 0  # distinct, of the dirty part
    without_key: int = 0  # dropped records
    map_seconds: float = 0.0  # of the first pass, for the benchmark
    seconds: float = 0.0


@attrs.frozen
class Cleaned:
    """Outcome, ready for the swap; sources without replacement stay."""

    replacements: tuple[Replacement, ...]
    first_dirty_offset: int
    statistics: Statistics = Statistics()

    def to_json(self) -> str:
        return json.dumps(
            attrs.asdict(self) | {"replacements": [attrs.astuple(replacement) for replacement in self.replacements]}
        )

    @classmethod
    def from_json(cls, line: str | bytes) -> Cleaned:
        fields: dict[str, Any] = json.loads(line)
        replacements = tuple(Replacement(tuple(row[0]), *row[1:]) for row in fields["replacements"])
        return cls(replacements, fields["first_dirty_offset"], Statistics(**fields["statistics"]))


@attrs.frozen
class Failed:
    """Outcome of a failure; `.cleaned` files may remain."""

    detail: str
    path: str | None = None
    position: int | None = None

    def __str__(self) -> str:
        where = "" if self.path is None else f"{self.path} at {self.position}: "
        return where + self.detail

    def to_json(self) -> str:
        return json.dumps({"failed": self.detail, "path": self.path, "position": self.position})


def outcome(line: str | bytes) -> Cleaned | Failed:
    fields: dict[str, Any] = json.loads(line)
    if "failed" in fields:
        return Failed(fields["failed"], fields["path"], fields["position"])
    return Cleaned.from_json(line)
