"""An archive as a directory of Parquet files.

A file gets its name, which has its offsets, when it is complete and on the disk. What has no name yet is a leftover,
and written again. Dead letters get their name before the records of their segment. So dead letters of offsets without
records are leftovers, too. Directories are on the disk before there is a file in them.

The jobs of a partition exclude each other by a lock on its directory, also those of several brokers with replicas.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from typing import Final

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from pylogbroker.table.archive.jobs import DEAD_LETTER_SCHEMA, ROWS_BYTES, SCHEMA, ArchiveJob, dead_letter_rows
from pylogbroker.table.archive.layout import (
    DEAD_LETTERS,
    RECORDS,
    TEMPORARY,
    directory_of,
    files_in,
    files_within,
    name_of,
)
from pylogbroker.table.archive.segments import UndecodedBytes

_COMPRESSION: Final = "zstd"
_SCHEMAS_MAX: Final = 100  # files of a partition that are looked at


@attrs.frozen
class DirectoryTarget:
    root: Path
    records: Path
    dead_letters: Path

    @classmethod
    def of(cls, job: ArchiveJob) -> DirectoryTarget:
        place = (job.topic, job.topic_id, job.partition)
        directories = (directory_of(job.root, kind, *place) for kind in (RECORDS, DEAD_LETTERS))
        return cls(Path(job.root), *directories)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        _make_directory(self.records, self.root)
        fd = os.open(self.records, os.O_RDONLY)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            for directory in (self.records, self.dead_letters):
                for path in directory.glob(f"*{TEMPORARY}"):
                    path.unlink()
            yield
        finally:
            os.close(fd)

    def archived_to(self) -> int:
        files = files_in(self.records)
        return files[-1].end if files else -1

    def schema(self) -> pa.Schema:
        """Return that of the newest file with more columns, of the partition or else of another one of the topic."""
        own = files_in(self.records)[: -_SCHEMAS_MAX - 1 : -1]
        others = (files_in(directory)[-1:] for directory in sorted(self.records.parent.iterdir()))
        schemas = (pq.read_schema(file.place) for file in chain(own, chain.from_iterable(others)))
        return next((schema for schema in schemas if len(schema) > len(SCHEMA)), SCHEMA)

    @contextmanager
    def segment(self, start: int, end: int, schema: pa.Schema = SCHEMA) -> Iterator[_FileSink]:
        name = name_of(start, end)
        for leftover in files_within(self.dead_letters, start, end):
            os.unlink(leftover.place)
        with _complete_file(self.records, name) as temporary, _Rows(temporary, schema) as rows, ExitStack() as stack:
            yield _FileSink(self, rows, name, stack)


@attrs.define(eq=False, repr=False)
class _FileSink:
    """The file of a segment, and that of its dead letters once there is one."""

    _target: DirectoryTarget
    _rows: _Rows
    _name: str
    _stack: ExitStack
    _letters: list[_Rows] = attrs.field(factory=list, init=False)

    def add(self, rows: pa.RecordBatch) -> None:
        self._rows.add(rows)

    def add_dead_letters(self, letters: Sequence[UndecodedBytes]) -> None:
        if not self._letters:
            directory = self._target.dead_letters
            _make_directory(directory, self._target.root)
            temporary = self._stack.enter_context(_complete_file(directory, self._name))
            self._letters.append(self._stack.enter_context(_Rows(temporary, DEAD_LETTER_SCHEMA)))
        self._letters[0].add(dead_letter_rows(letters))


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
        if self._pending_bytes >= ROWS_BYTES:
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


def _make_directory(path: Path, root: Path) -> None:
    """Make a directory within the archive's root; it is on the disk then, even if an earlier job made part of it."""
    levels = [path, *path.parents]
    parents = {level.parent for level in levels if not level.exists()}
    path.mkdir(parents=True, exist_ok=True)
    for level in levels[1 : levels.index(root) + 1]:
        parents.add(level)
    for parent in parents:
        _sync(parent)


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
