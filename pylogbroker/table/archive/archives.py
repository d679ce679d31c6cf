"""Archives that are read, by what users name.

| place                                            | archive                                               |
|--------------------------------------------------|-------------------------------------------------------|
| /var/archive                                     | directory of the delete policy `archive-parquet`      |
| s3://BUCKET/PREFIX, another URI that pyarrow has | copy of such a directory in an object store           |
| iceberg://CATALOG/NAMESPACE.TABLE                | table of Iceberg that the delete policy writes        |
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import urlsplit
from uuid import UUID

import pyarrow as pa
import pyarrow.fs as pafs

from pylogbroker.errors import ConfigError
from pylogbroker.extras import required_by
from pylogbroker.features import on_first_use
from pylogbroker.table.archive.layout import ArchivedRange
from pylogbroker.table.archive.parquet_archive import ParquetArchive

if TYPE_CHECKING:
    from pylogbroker.table.archive import iceberg_archive
else:
    iceberg_archive = on_first_use("pylogbroker.table.archive.iceberg_archive")

_ICEBERG: Final = "iceberg"
_URI: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://.*", re.DOTALL)
_OF_HIVE: Final = "topic="


class ReadablePartition(Protocol):
    """Archived records of one partition."""

    def ranges(self) -> Sequence[ArchivedRange]:
        """Return the ranges that are there now, in order; raise TableError."""

    def batches(
        self, archived: ArchivedRange, start: int, end: int, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a range with offsets [start, end), in order, with columns of `jobs.COLUMNS`."""

    def first_since(self, time_ms: int) -> int | None:
        """Return the offset of the first record that is as late as a time; None without one."""


class ReadableArchive(Protocol):
    @property
    def place(self) -> str:
        """Return the place for texts, without credentials."""

    def partition(self, topic: str, topic_id: UUID, partition: int) -> ReadablePartition: ...


def open_archive(place: str | os.PathLike[str]) -> ReadableArchive:
    """Return the archive at a place; raise ConfigError or TableError."""
    text = os.fspath(place)
    match = _URI.fullmatch(text)
    if match is None:
        return _directory(Path(text))
    if match[1] == _ICEBERG:
        with required_by("an archive in Iceberg", "iceberg"):
            return iceberg_archive.IcebergArchive.of(text)
    return _object_store(text)


def _directory(root: Path) -> ParquetArchive:
    if not root.is_dir():
        raise ConfigError(
            f"archive: {root} is not a directory; expected that of the delete policy archive-parquet, a URI such as"
            " s3://BUCKET/PREFIX, or iceberg://CATALOG/NAMESPACE.TABLE"
        )
    if any(path.name.startswith(_OF_HIVE) for path in root.iterdir()):
        raise ConfigError(f"archive: {root} is within an archive; expected {root.absolute().parent}")
    return ParquetArchive(pafs.LocalFileSystem(), str(root), str(root))


def _object_store(uri: str) -> ParquetArchive:
    parts = urlsplit(uri)
    shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    try:
        filesystem, root = pafs.FileSystem.from_uri(re.sub("^s3a:", "s3:", uri))
    except (pa.ArrowException, ValueError, OSError) as error:
        raise ConfigError(f"archive: {shown} cannot be opened: {error}") from error
    try:
        kind = filesystem.get_file_info(root).type
    except OSError as error:
        raise ConfigError(f"archive: {shown} cannot be reached: {error}") from error
    if kind != pafs.FileType.Directory:
        raise ConfigError(f"archive: there is nothing at {shown}; expected a copy of the directory of an archive")
    return ParquetArchive(filesystem, root.rstrip("/"), shown)
