"""Jobs of an archive, their outcome, and the columns of what is archived."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

import attrs
import pyarrow as pa

from pylogbroker.table.archive.segments import UndecodedBytes
from pylogbroker.table.columns import type_of

COLUMNS: Final = ("offset", "timestamp", "timestamp_type", "key", "value", "headers")
SCHEMA: Final = pa.schema([(name, type_of(name)) for name in COLUMNS])
DEAD_LETTER_SCHEMA: Final = pa.schema(
    [
        ("offset", pa.int64()),
        ("position", pa.int64()),
        ("reason", pa.string()),
        ("content", pa.binary()),
        ("field", pa.string()),
        ("schema", pa.string()),
    ]
)
ROWS_BYTES: Final = 32 << 20
"""Bytes of rows that are written at once."""


@attrs.frozen
class SegmentRange:
    """A segment's offsets [base, end), and the bytes of its file."""

    base: int
    end: int
    size: int


@attrs.frozen
class ArchiveJob:
    root: str
    topic: str
    topic_id: str
    partition: int
    directory: str
    segments: tuple[SegmentRange, ...]
    aborted: tuple[tuple[int, int], ...]
    """Producer ids and first offsets of aborted transactions."""
    decoding: Mapping[str, str] = attrs.field(factory=dict)
    """Forms by `key` and `value`, and settings of a schema registry."""

    @classmethod
    def from_json(cls, text: str) -> ArchiveJob:
        fields: dict[str, Any] = json.loads(text)
        segments = tuple(SegmentRange(*numbers) for numbers in fields.pop("segments"))
        aborted = tuple((producer_id, first) for producer_id, first in fields.pop("aborted"))
        return cls(**fields, segments=segments, aborted=aborted)


@attrs.define
class Archived:
    """Outcome of a job: all records before `archived_to` are in the archive."""

    archived_to: int
    files: int = 0
    records: int = 0
    dead_letters: int = 0
    """Damaged batches."""
    undecodable: int = 0
    """Keys and values that do not fit their schemas."""

    def to_json(self) -> str:
        return json.dumps(attrs.asdict(self))


class SegmentSink(Protocol):
    """Takes the contents of one segment."""

    def add(self, rows: pa.RecordBatch, /) -> None: ...

    def add_dead_letters(self, letters: Sequence[UndecodedBytes], /) -> None: ...


class ArchiveTarget(Protocol):
    """Place of the archive of one partition."""

    def exclusive(self) -> AbstractContextManager[object]:
        """Keep other jobs of the partition out."""

    def archived_to(self) -> int:
        """Return the end of what is archived; -1 without records."""

    def schema(self) -> pa.Schema:
        """Return the columns that the records of the topic had up to now; those of SCHEMA, without records."""

    def segment(self, start: int, end: int, schema: pa.Schema = SCHEMA) -> AbstractContextManager[SegmentSink]:
        """Archive the offsets [start, end), which are complete at the end of the context."""


def dead_letter_rows(letters: Sequence[UndecodedBytes]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([attrs.asdict(letter) for letter in letters], DEAD_LETTER_SCHEMA)
