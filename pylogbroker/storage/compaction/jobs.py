"""Jobs of the cleaner process and their outcomes: values, and the lines of JSON that carry them.

```
stdin    {"directory": ..., "sources": [[base offset, path, size, modified ms], ...], ...}      CleanerJob
stdout   {"replacements": [[[base offsets], base offset, size], ...], ...}                      Cleaned
         {"failed": detail, "path": ..., "position": ...}                                       Failed
```

There is one line per job, and one per outcome in the same order.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from pylogbroker.storage.log.segment_swap import Replacement
from pylogbroker.storage.log.transaction_index import AbortedTxn

NO_LIMIT: Final = 1 << 62  # bytes per second, for a cleaner without throttle


@attrs.frozen
class SourceSegment:
    """Sealed segment to clean: its record file, and that file's size and modification time."""

    base_offset: int
    path: str
    size: int
    modified_ms: int


@attrs.frozen
class CleanerJob:
    """One cleaning of one log.

    `sources` are all of the log's segments below `end_offset`, oldest first. Records from `end_offset` on are not
    touched. Below `first_dirty_offset` each key occurs once already.

    `last_sequences` has the last offset of each active producer's last batch. That batch stays, if need be without
    records. A marker that was emptied would be useless for this; producers that only wrote markers are restored from
    snapshots.

    `aborted` are transactions with data below `end_offset` whose markers lie after the sources, so that the sources'
    transaction indexes lack them. Other transactions do no harm.
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
        """Pairs of each source and its end offset."""
        return zip(self.sources, (*(source.base_offset for source in self.sources[1:]), self.end_offset), strict=False)

    def to_json(self) -> str:
        """Return one line, without its end."""
        fields = attrs.asdict(self, recurse=False)
        fields["sources"] = [attrs.astuple(source) for source in self.sources]
        fields["last_sequences"] = list(self.last_sequences.items())
        return json.dumps(fields)

    @classmethod
    def from_json(cls, line: str | bytes) -> CleanerJob:
        fields: dict[str, Any] = json.loads(line)
        fields["sources"] = tuple(SourceSegment(*each) for each in fields["sources"])
        fields["last_sequences"] = dict(fields["last_sequences"])
        fields["aborted"] = tuple(AbortedTxn(*each) for each in fields["aborted"])
        return cls(**fields)


@attrs.frozen
class Statistics:
    """Figures of a cleaning."""

    records_read: int = 0
    records_kept: int = 0
    bytes_read: int = 0  # in the second pass
    bytes_written: int = 0  # bytes that stay, also of segments that do not change
    dirty_bytes: int = 0  # read in the first pass
    keys: int = 0  # distinct keys of the dirty part
    without_key: int = 0  # records dropped because they have no key
    map_full: bool = False  # the dirty part did not fit: another cleaning is due
    map_seconds: float = 0.0
    seconds: float = 0.0


@attrs.frozen
class Cleaned:
    """A finished cleaning, ready for the swap.

    Sources without replacement stay as they are. The next cleaning begins at `first_dirty_offset`.
    """

    replacements: tuple[Replacement, ...]
    first_dirty_offset: int
    statistics: Statistics = Statistics()

    def to_json(self) -> str:
        return json.dumps(attrs.asdict(self) | {"replacements": [attrs.astuple(each) for each in self.replacements]})

    @classmethod
    def from_json(cls, line: str | bytes) -> Cleaned:
        fields: dict[str, Any] = json.loads(line)
        replacements = tuple(Replacement(tuple(each[0]), *each[1:]) for each in fields["replacements"])
        return cls(replacements, fields["first_dirty_offset"], Statistics(**fields["statistics"]))


@attrs.frozen
class Failed:
    """A cleaning that failed; it may leave `.cleaned` files."""

    detail: str
    path: str | None = None  # the damaged file
    position: int | None = None  # in the damaged file

    def __str__(self) -> str:
        where = "" if self.path is None else f"{self.path} at {self.position}: "
        return where + self.detail

    def to_json(self) -> str:
        return json.dumps({"failed": self.detail, "path": self.path, "position": self.position})


def outcome(line: str | bytes) -> Cleaned | Failed:
    """Return the outcome in a line from the cleaner process."""
    fields: dict[str, Any] = json.loads(line)
    if "failed" in fields:
        return Failed(fields["failed"], fields["path"], fields["position"])
    return Cleaned.from_json(line)
