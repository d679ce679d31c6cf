"""Files of an archive.

    ROOT/records/topic=orders/topic_id=3Jz7e5qRTlOQd1zvO1dXUg/partition=0/00000000000000000000-00000000000000001000.parquet
    ROOT/dead-letters/topic=.../topic_id=.../partition=.../...parquet

Offsets in a name are the first one and the one after the last. The files of a partition do not overlap. A topic that is
created again has another id, so its files lie elsewhere. Directories have the form of Hive's partitions: DuckDB, Spark
and Polars read them as columns.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Final
from uuid import UUID

import attrs

from pylogbroker.table.errors import TableError

RECORDS: Final = "records"
DEAD_LETTERS: Final = "dead-letters"
NO_TOPIC_ID: Final = "none"
TEMPORARY: Final = ".tmp"
_NAME: Final = re.compile(r"([0-9]{20})-([0-9]{20})\.parquet")


@attrs.frozen(order=True)
class ArchivedRange:
    """Records with offsets [start, end), in one file or table."""

    start: int
    end: int
    place: str


def id_text(topic_id: UUID | None) -> str:
    """Return a topic id as Kafka's tools show it."""
    if topic_id is None or not topic_id.int:
        return NO_TOPIC_ID
    return base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def directory_of(root: str | Path, kind: str, topic: str, topic_id: str, partition: int) -> Path:
    return Path(root, kind, f"topic={topic}", f"topic_id={topic_id}", f"partition={partition}")


def name_of(start: int, end: int) -> str:
    return f"{start:020d}-{end:020d}.parquet"


def files_in(directory: Path) -> list[ArchivedRange]:
    """Return the files of a partition in order; raise TableError if they overlap."""
    return files_of(str(directory), _names(directory))


def files_within(directory: Path, start: int, end: int) -> list[ArchivedRange]:
    """Return the files with any of the offsets [start, end), also those that overlap."""
    return [file for file in _named(str(directory), _names(directory)) if file.start < end and start < file.end]


def files_of(directory: str, names: Iterable[str]) -> list[ArchivedRange]:
    """Return those names in a directory that are files of an archive, in order; raise TableError if they overlap."""
    files = _named(directory, names)
    for before, after in pairwise(files):
        if after.start < before.end:
            raise TableError(
                f"{before.place} and {after.place} overlap: records are archived twice; remove one of them"
            )
    return files


def _names(directory: Path) -> list[str]:
    try:
        return os.listdir(directory)
    except FileNotFoundError:
        return []


def _named(directory: str, names: Iterable[str]) -> list[ArchivedRange]:
    matches = [match for match in map(_NAME.fullmatch, names) if match is not None]
    return sorted(ArchivedRange(int(match[1]), int(match[2]), f"{directory}/{match[0]}") for match in matches)
