"""Copies a sealed segment to a remote storage.

    step   object           after a crash behind it
    -----  ---------------  ----------------------------------------------------------------------
    1      record batches   the segment is unfinished: nobody reads it, the next leader deletes it
    2      indexes          as before
    3      both are read    as before
    4      manifest         the segment is stored, although nobody here knows
    5      it is read       as before

After the last cases the next listing finds the segment. The local copy may be deleted when step 5 has returned, or a
listing has the segment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final
from uuid import UUID

import attrs

from pylogbroker.records import crc32c
from pylogbroker.storage import names
from pylogbroker.storage.checkpoints import DamagedFile
from pylogbroker.storage.files import FileHandle, read_at, read_file
from pylogbroker.storage.log import producer_snapshots
from pylogbroker.storage.log.transaction_index import ENTRY_SIZE as TRANSACTION_BYTES
from pylogbroker.storage.remote import manifest, object_names, segment_indexes
from pylogbroker.storage.remote.checked_store import CheckedStore, StoreFailure
from pylogbroker.storage.remote.lineage import epochs_between
from pylogbroker.storage.remote.manifest import Epochs, RemoteSegment
from pylogbroker.storage.remote.object_names import SegmentName
from pylogbroker.storage.remote.segment_indexes import CHUNK_BYTES

_PART_BYTES: Final = CHUNK_BYTES


@attrs.frozen
class SegmentSource:
    """Local segment to copy: its records, which are on the disk, and where its files are."""

    topic: str
    topic_id: UUID
    partition: int
    directory: str
    file: FileHandle
    base_offset: int
    end_offset: int
    size: int
    max_timestamp: int
    transactions: int
    """Number of entries of the transaction index."""
    epochs: Epochs
    """Leader epochs of the log up to the segment's end."""


class CopyAborted(Exception):
    """The copy is not wanted any more: another broker leads the partition, or the broker stops."""


Pace = Callable[[int], None]
"""Called before each part with its bytes: may sleep, or raise CopyAborted."""


def copy(store: CheckedStore, source: SegmentSource, name: SegmentName, now_ms: int, pace: Pace) -> RemoteSegment:
    """Return the stored segment. Blocks; raise StoreFailure, CopyAborted, or OSError for local files."""
    prefix = object_names.partition_prefix(source.topic_id, source.partition) + str(name)
    checksums: list[int] = []
    store.put(prefix + object_names.LOG, _parts(source, checksums, pace))
    if len(checksums) != -(-source.size // CHUNK_BYTES):
        raise StoreFailure(f"writing {prefix}: the remote storage did not take all parts of the segment")
    transactions = _file(source, names.TRANSACTION_INDEX)
    if len(transactions) != source.transactions * TRANSACTION_BYTES:  # the log moves to another directory, say
        raise CopyAborted
    indexes = segment_indexes.encode(
        _file(source, names.OFFSET_INDEX),
        _file(source, names.TIME_INDEX),
        transactions,
        _producers(source),
        source.epochs,
        checksums,
    )
    pace(0)
    store.put(prefix + object_names.INDEX, _slices(indexes))
    _check(store, prefix + object_names.LOG, source.size, checksums[-1])
    last = indexes[(len(indexes) - 1) // CHUNK_BYTES * CHUNK_BYTES :]
    _check(store, prefix + object_names.INDEX, len(indexes), crc32c(last))
    segment = RemoteSegment(
        name,
        source.topic,
        source.partition,
        source.size,
        source.max_timestamp,
        epochs_between(source.epochs, source.base_offset, source.end_offset),
        segment_indexes.first_aborted(transactions),
        now_ms,
        len(indexes),
        crc32c(indexes),
    )
    pace(0)
    data = manifest.encode(segment)
    store.put(prefix + object_names.MANIFEST, [data])
    _check(store, prefix + object_names.MANIFEST, len(data), crc32c(data))
    return segment


def _parts(source: SegmentSource, checksums: list[int], pace: Pace) -> Iterator[bytes]:
    for position in range(0, source.size, _PART_BYTES):
        part = read_at(source.file.fd, min(_PART_BYTES, source.size - position), position)
        checksums.append(crc32c(part))
        pace(len(part))
        yield part


def _producers(source: SegmentSource) -> bytes:
    """Return the snapshot of producer states at the segment's end; an empty one if it is missing or damaged."""
    snapshot = read_file(names.file_of(source.directory, source.end_offset, names.SNAPSHOT)) or b""
    try:
        producer_snapshots.decode(snapshot)
    except DamagedFile:
        return producer_snapshots.encode(())
    return snapshot


def _file(source: SegmentSource, suffix: str) -> bytes:
    """Return an index file's whole entries; the last ones may be missing, as in a local segment."""
    data = read_file(names.file_of(source.directory, source.base_offset, suffix)) or b""
    return data[: len(data) - len(data) % _ENTRY_BYTES[suffix]]


_ENTRY_BYTES: Final = {names.OFFSET_INDEX: 8, names.TIME_INDEX: 12, names.TRANSACTION_INDEX: TRANSACTION_BYTES}


def _slices(data: bytes) -> Iterator[bytes]:
    for position in range(0, len(data), _PART_BYTES):
        yield data[position : position + _PART_BYTES]


def _check(store: CheckedStore, name: str, size: int, checksum: int) -> None:
    """Read the last chunk of an object that was written: it shows the object's size, and that it can be read."""
    start = (size - 1) // CHUNK_BYTES * CHUNK_BYTES
    data = store.read(name, start, size - start + 1)
    if len(data) != size - start or crc32c(data) != checksum:
        raise StoreFailure(f"{name}: the remote storage returns other bytes than were written")
