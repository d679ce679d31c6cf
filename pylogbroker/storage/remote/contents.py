"""Contents of a remote storage for one partition, by a listing and the manifests.

objects of a segment                               meaning
-------------------------------------------------  -------------------------------------------------------------
manifest, and the others with the sizes it says    stored: it may be read, and its local copy deleted
a tombstone, with or without others                deleted, whatever else appears; see `deletion`
others without a manifest                          a copy that is under way or was interrupted: does not count
a manifest without the others, or a damaged one    damaged: does not count, and is kept for people to look at
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from operator import attrgetter
from typing import Final
from uuid import UUID

import attrs

from pylogbroker.storage.remote import manifest, object_names, summaries
from pylogbroker.storage.remote.checked_store import CheckedStore, MissingObject, StoreFailure
from pylogbroker.storage.remote.manifest import DamagedObject, RemoteSegment
from pylogbroker.storage.remote.object_names import SegmentName

_READERS: Final = 8
"""Threads that read manifests, if there are more of them: a request to a store far away takes long."""

_READS_WAITING_MAX: Final = 1000
"""Reads that wait for these threads: each takes a kilobyte."""

_key = attrgetter("key")


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
    summaries: Mapping[SegmentName, bool] = attrs.field(factory=dict)
    """Summaries, and whether they are whole."""


@attrs.define(eq=False, repr=False)
class _Objects:
    """Objects of one segment, as listed. A partition may have 100,000 of these."""

    log_size: int = -1
    index_size: int = -1
    has_manifest: bool = False
    has_tombstone: bool = False
    count: int = 0

    def note(self, suffix: str, size: int) -> None:
        self.count += 1
        if suffix == object_names.LOG:
            self.log_size = size
        elif suffix == object_names.INDEX:
            self.index_size = size
        elif suffix == object_names.MANIFEST:
            self.has_manifest = True
        elif suffix == object_names.TOMBSTONE:
            self.has_tombstone = True


def load(
    store: CheckedStore, topic_id: UUID, partition: int, segments_before: Iterable[RemoteSegment] = ()
) -> Contents:
    """List a partition's objects; read the manifests of other segments than before. Blocks; raise StoreFailure."""
    prefix = object_names.partition_prefix(topic_id, partition)
    manifests = {segment.name: segment for segment in segments_before}
    objects, summaries_listed = _list(store, prefix)
    names = sorted(
        (name for name, present in objects.items() if present.has_manifest and not present.has_tombstone),
        key=_key,
    )

    def content_of(name: SegmentName) -> bytes | StoreFailure | None:
        """Return a manifest that is not known yet, and a failure: threads of the executor only read."""
        if name in manifests:
            return None
        try:
            return store.read(f"{prefix}{name}{object_names.MANIFEST}", 0, manifest.BYTES_MAX)
        except StoreFailure as failure:
            return failure

    def segment_of(name: SegmentName, content: bytes | StoreFailure | None) -> RemoteSegment | DamagedObject | None:
        if isinstance(content, MissingObject):  # deleted since the listing
            return None
        if isinstance(content, StoreFailure):
            raise content
        try:
            segment = manifests[name] if content is None else manifest.decode(name, partition, content)
        except DamagedObject as error:
            return error
        present = objects[name]
        if (present.log_size, present.index_size) != (segment.size, segment.index_size):
            return DamagedObject(f"{prefix}{name}: objects are missing, or have other sizes than in the manifest")
        return segment

    outcomes: list[RemoteSegment | DamagedObject | None] = []
    with ThreadPoolExecutor(_READERS) as executor:  # its threads begin with the first call
        unread = [name for name in names if name not in manifests]
        useful = summaries.worth_reading(summaries_listed, unread)
        for at in range(0, len(useful), _READERS):  # each may have megabytes
            some = useful[at : at + _READERS]
            for data in executor.map(lambda summary: summaries.read(store, prefix, summary), some):
                manifests.update((segment.name, segment) for segment in summaries.decode(partition, data))
        read_all = executor.map if sum(name not in manifests for name in names) > _READERS else map
        for at in range(0, len(names), _READS_WAITING_MAX):
            some = names[at : at + _READS_WAITING_MAX]
            outcomes += map(segment_of, some, read_all(content_of, some))
    deleted = frozenset(name for name, present in objects.items() if present.has_tombstone)
    return Contents(
        tuple(outcome for outcome in outcomes if isinstance(outcome, RemoteSegment)),
        deleted,
        frozenset(name for name in deleted if objects[name].count > 1),
        frozenset(name for name, present in objects.items() if not present.has_tombstone and not present.has_manifest),
        tuple(outcome.detail for outcome in outcomes if isinstance(outcome, DamagedObject)),
        summaries_listed,
    )


def _list(store: CheckedStore, prefix: str) -> tuple[dict[SegmentName, _Objects], dict[SegmentName, bool]]:
    """Return the objects of segments, and the summaries with whether they are whole."""
    objects: dict[SegmentName, _Objects] = {}
    summaries_listed: dict[SegmentName, bool] = {}
    for listed in store.list(prefix):
        parsed = object_names.parse(listed.name)
        if parsed is None:
            continue
        name, suffix = parsed
        if suffix.startswith(object_names.SUMMARY):
            is_whole = suffix == object_names.SUMMARY
            summaries_listed[name] = is_whole or summaries_listed.get(name, False)
            continue
        present = objects.get(name)
        if present is None:
            present = objects[name] = _Objects()
        present.note(suffix, listed.size)
    return objects, summaries_listed
