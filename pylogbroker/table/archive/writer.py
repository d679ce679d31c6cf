"""A job of an archive: segments of one partition become Parquet files, each record once.

A file gets its name, which has its offsets, when it is complete and on the disk. The next job goes on behind the last
file. So a kill at any moment neither loses nor doubles: what has no name yet is written again. Dead letters get their
name before the records of their segment.

The jobs of a partition exclude each other by a lock on its directory, also those of several brokers with replicas.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from pylogbroker.records.columnar import AbortedTransactions
from pylogbroker.table.archive.layout import (
    DEAD_LETTERS,
    RECORDS,
    TEMPORARY,
    directory_of,
    files_in,
    name_of,
)
from pylogbroker.table.archive.segments import DamagedBatch, SegmentReader
from pylogbroker.table.columns import column_of, decoder_columns, type_of
from pylogbroker.table.decoder import Decoder
from pylogbroker.table.errors import TableError

COLUMNS: Final = ("offset", "timestamp", "timestamp_type", "key", "value", "headers")
SCHEMA: Final = pa.schema([(name, type_of(name)) for name in COLUMNS])
DEAD_LETTER_SCHEMA: Final = pa.schema(
    [("offset", pa.int64()), ("position", pa.int64()), ("reason", pa.string()), ("content", pa.binary())]
)
_ROW_GROUP_BYTES: Final = 32 << 20
_COMPRESSION: Final = "zstd"
_OF_KAFKA_07: Final = "message-format"


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

    def to_json(self) -> str:
        return json.dumps(attrs.asdict(self))


def archive(job: ArchiveJob) -> Archived:
    """Write what the archive does not have yet; raise PylogbrokerError or OSError."""
    if os.path.exists(f"{job.directory}/{_OF_KAFKA_07}"):
        raise TableError(f"{job.directory} has the format of Kafka 0.7, which is not archived")
    directory = directory_of(job.root, RECORDS, job.topic, job.topic_id, job.partition)
    dead_letters = directory_of(job.root, DEAD_LETTERS, job.topic, job.topic_id, job.partition)
    directory.mkdir(parents=True, exist_ok=True)
    with _locked(directory):
        files = files_in(directory)
        outcome = Archived(files[-1].end if files else -1)
        _remove_leftovers(directory)
        for segment in job.segments:
            start = max(segment.base, outcome.archived_to)
            if start < segment.end:
                _write_segment(job, segment, start, (directory, dead_letters), outcome)
                outcome.archived_to = segment.end
                outcome.files += 1
    return outcome


def _write_segment(
    job: ArchiveJob, segment: SegmentRange, start: int, directories: tuple[Path, Path], outcome: Archived
) -> None:
    directory, dead_letters = directories
    path = Path(job.directory, f"{segment.base:020d}.kafka")
    reader = SegmentReader(path, segment.size, segment.base, start, segment.end)
    decoder = Decoder(job.topic, job.partition, decoder_columns(COLUMNS))
    name = name_of(start, segment.end)
    with _complete_file(directory, name) as temporary, _Rows(temporary, SCHEMA) as rows, ExitStack() as stack:
        damaged: _Rows | None = None
        for part in reader.parts(decoder, AbortedTransactions(job.aborted)):
            if isinstance(part, DamagedBatch):
                damaged = damaged or _dead_letters(stack, dead_letters, name)
                damaged.add(pa.RecordBatch.from_pylist([attrs.asdict(part)], DEAD_LETTER_SCHEMA))
                outcome.dead_letters += 1
            else:
                columns = [column_of(part, column) for column in COLUMNS]
                rows.add(pa.RecordBatch.from_arrays(columns, schema=SCHEMA))
                outcome.records += part.num_rows


def _dead_letters(stack: ExitStack, directory: Path, name: str) -> _Rows:
    directory.mkdir(parents=True, exist_ok=True)
    return stack.enter_context(_Rows(stack.enter_context(_complete_file(directory, name)), DEAD_LETTER_SCHEMA))


@attrs.define(eq=False, repr=False)
class _Rows:
    """Parquet file whose row groups have some megabytes."""

    _path: Path
    _schema: pa.Schema
    _writer: pq.ParquetWriter = attrs.field(init=False)
    _pending: list[pa.RecordBatch] = attrs.field(factory=list, init=False)
    _pending_bytes: int = attrs.field(default=0, init=False)

    def __enter__(self) -> _Rows:
        self._writer = pq.ParquetWriter(self._path, self._schema, compression=_COMPRESSION)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._flush()
        self._writer.close()

    def add(self, batch: pa.RecordBatch) -> None:
        self._pending.append(batch)
        self._pending_bytes += batch.nbytes
        if self._pending_bytes >= _ROW_GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._pending:
            self._writer.write_table(pa.Table.from_batches(self._pending, self._schema))
        self._pending, self._pending_bytes = [], 0


@contextmanager
def _complete_file(directory: Path, name: str) -> Iterator[Path]:
    """Yield a path whose file gets its name when it is on the disk; without that, it is a leftover."""
    temporary = directory / f"{name}{TEMPORARY}"
    yield temporary
    _sync(temporary)
    temporary.rename(directory / name)
    _sync(directory)


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    fd = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _remove_leftovers(directory: Path) -> None:
    for path in directory.glob(f"*{TEMPORARY}"):
        path.unlink()
