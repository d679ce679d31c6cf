"""Contents of a remote storage for one partition, by a listing and the manifests.

objects of a segment                               meaning
-------------------------------------------------  -------------------------------------------------------------
manifest, and the others with the sizes it says    stored: it may be read, and its local copy deleted
a tombstone, with or without others                deleted, whatever else appears; see `deletion`
others without a manifest                          a copy that is under way or was interrupted: does not count
a manifest without the others, or a damaged one    damaged: does not count, and is kept for people to look at
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final
from uuid import UUID

import attrs

from pylogbroker.storage.remote import manifest, object_names
from pylogbroker.storage.remote.checked_store import CheckedStore, MissingObject
from pylogbroker.storage.remote.manifest import DamagedObject, RemoteSegment
from pylogbroker.storage.remote.object_names import SegmentName

_READERS: Final = 8
"""Threads that read manifests, if there are more of them: a request to a store far away takes long."""


@attrs.frozen
class Contents:
    """Segments of one partition, by base offset."""

    segments: tuple[RemoteSegment, ...] = ()
    deleted: frozenset[SegmentName] = frozenset()
    """Segments with a tombstone."""
    undeleted: frozenset[SegmentName] = frozenset()
    """Those of them whose objects are not all gone."""
    unfinished: frozenset[SegmentName] = frozenset()
    damaged: tuple[str, ...] = ()
    """Descriptions of damaged segments."""


def load(
    store: CheckedStore, topic_id: UUID, partition: int, segments_before: Iterable[RemoteSegment] = ()
) -> Contents:
    """List a partition's objects; read the manifests of other segments than before. Blocks; raise StoreFailure."""
    prefix = object_names.partition_prefix(topic_id, partition)
    read_before = {segment.name: segment for segment in segments_before}
    sizes: dict[SegmentName, dict[str, int]] = {}
    for listed in store.list(prefix):
        parsed = object_names.parse(listed.name)
        if parsed is not None:
            sizes.setdefault(parsed[0], {})[parsed[1]] = listed.size
    names = sorted(
        name
        for name, present in sizes.items()
        if object_names.MANIFEST in present and object_names.TOMBSTONE not in present
    )

    def segment_of(name: SegmentName) -> RemoteSegment | DamagedObject | None:
        try:
            segment = read_before.get(name) or _read(store, prefix, name, partition)
        except MissingObject:  # deleted since the listing
            return None
        except DamagedObject as error:
            return error
        present = sizes[name]
        if (present.get(object_names.LOG), present.get(object_names.INDEX)) != (segment.size, segment.index_size):
            return DamagedObject(f"{prefix}{name}: objects are missing, or have other sizes than in the manifest")
        return segment

    unread = sum(name not in read_before for name in names)
    with ThreadPoolExecutor(_READERS) as executor:  # its threads begin with the first call
        outcomes = list((executor.map if unread > _READERS else map)(segment_of, names))
    segments = [outcome for outcome in outcomes if isinstance(outcome, RemoteSegment)]
    damaged = [outcome.detail for outcome in outcomes if isinstance(outcome, DamagedObject)]
    deleted = frozenset(name for name, present in sizes.items() if object_names.TOMBSTONE in present)
    return Contents(
        tuple(segments),
        deleted,
        frozenset(name for name in deleted if len(sizes[name]) > 1),
        frozenset(
            name
            for name, present in sizes.items()
            if not {object_names.TOMBSTONE, object_names.MANIFEST} & present.keys()
        ),
        tuple(damaged),
    )


def _read(store: CheckedStore, prefix: str, name: SegmentName, partition: int) -> RemoteSegment:
    data = store.read(f"{prefix}{name}{object_names.MANIFEST}", 0, manifest.BYTES_MAX)
    return manifest.decode(name, partition, data)
