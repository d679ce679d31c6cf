"""Local logs whose sealed segments are copied to a remote storage, for tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from uuid import UUID

from pylogbroker.records import entries
from pylogbroker.storage import FileRegion, Log
from pylogbroker.storage.remote import contents, copying
from pylogbroker.storage.remote.checked_store import CheckedStore
from pylogbroker.storage.remote.copying import SegmentSource
from pylogbroker.storage.remote.lineage import Pieces, choose
from pylogbroker.storage.remote.manifest import RemoteSegment
from pylogbroker.storage.remote.object_names import SegmentName
from tests.storage.support import NOW

TOPIC_ID = UUID(int=7)


def ids() -> Callable[[], str]:
    """Ids of segments, one after the other."""
    numbers = iter(range(1, 1 << 20))
    return lambda: f"{next(numbers):032x}"


def sources(log: Log) -> list[SegmentSource]:
    """All sealed segments, for a copy."""
    found = []
    for segment, following in zip(log.segments, log.segments[1:], strict=False):
        epochs = tuple(entry for entry in log.epochs.entries if entry[1] < following.base_offset)
        found.append(
            SegmentSource(
                log.topic,
                TOPIC_ID,
                log.partition,
                log.path,
                segment.file.handle,
                segment.base_offset,
                following.base_offset,
                segment.size,
                segment.largest()[0],
                len(segment.transaction_index),
                epochs,
            )
        )
    return found


def copy(store: CheckedStore, source: SegmentSource, segment_id: str, epoch: int = 0) -> RemoteSegment:
    name = SegmentName(source.base_offset, source.end_offset, epoch, segment_id)
    return copying.copy(store, source, name, NOW, lambda size: None)


def copy_all(store: CheckedStore, log: Log) -> Pieces:
    """Copy all sealed segments; return the pieces of the log, as a listing has them."""
    new_id = ids()
    for source in sources(log):
        copy(store, source, new_id())
    return pieces_of(store, log)


def pieces_of(store: CheckedStore, log: Log) -> Pieces:
    loaded = contents.load(store, TOPIC_ID, log.partition, {})
    return choose(loaded.segments, log.epochs.entries, log.log_start_offset)


def rows(data: bytes) -> list[tuple[int, bytes]]:
    return [(record.offset, record.value or b"") for entry in entries(data) for record in entry.records()]


def bytes_of(region: FileRegion | None) -> bytes:
    return b"" if region is None else region.read()


def directory(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path
