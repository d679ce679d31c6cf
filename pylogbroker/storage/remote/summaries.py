"""Summaries: the manifests of many segments in one object, so that a new leader reads few objects.

A summary repeats manifests, and only saves requests for them. Segments count by their own objects, as listed: one whose
manifest is gone does not count, and one that no summary has is read by itself. So a summary may be missing, old or
damaged, and two leaders may write the same one.

The content has three lines for each segment: its name, and the two lines of its manifest.

The leader writes a summary for each thousand segments, oldest first, and deletes it after its segments.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Final
from uuid import UUID

from pylogbroker.storage.remote import manifest, object_names
from pylogbroker.storage.remote.checked_store import CheckedStore, MissingObject
from pylogbroker.storage.remote.manifest import DamagedObject, RemoteSegment
from pylogbroker.storage.remote.object_names import SegmentName

SEGMENTS: Final = 1000
_BYTES_MAX: Final = 16 << 20
_LINES: Final = 3
_base = attrgetter("base_offset")


def encode(segments: Iterable[RemoteSegment]) -> bytes:
    return b"".join(b"%s\n%s" % (str(segment.name).encode(), manifest.encode(segment)) for segment in segments)


def decode(partition: int, data: bytes) -> Iterator[RemoteSegment]:
    """Yield the segments of a summary, without those whose lines are damaged."""
    lines = data.split(b"\n")
    for at in range(0, len(lines) - _LINES, _LINES):
        parsed = object_names.parse(lines[at].decode("ascii", "replace") + object_names.MANIFEST)
        if parsed is None:
            continue
        try:
            yield manifest.decode(parsed[0], partition, b"%s\n%s\n" % (lines[at + 1], lines[at + 2]))
        except DamagedObject:
            continue


def read(store: CheckedStore, prefix: str, name: SegmentName) -> bytes:
    """Return the content of a summary; empty if it is gone. Blocks; raise StoreFailure."""
    try:
        return store.read(f"{prefix}{name}{object_names.SUMMARY}", 0, _BYTES_MAX)
    except MissingObject:
        return b""


def worth_reading(listed: Iterable[SegmentName], unread: list[SegmentName]) -> list[SegmentName]:
    """Return the summaries that may save several requests for manifests. `unread` are in order."""
    return [
        summary
        for summary in listed
        if bisect_left(unread, summary.end_offset, key=_base) - bisect_left(unread, summary.base_offset, key=_base) > 1
    ]


def update(
    store: CheckedStore,
    topic_id: UUID,
    partition: int,
    segments: tuple[RemoteSegment, ...],
    listed: Mapping[SegmentName, bool],
    leader_epoch: int,
    new_id: Callable[[], str],
) -> None:
    """Write the summaries that are missing, and delete those without segments. Blocks; raise StoreFailure.

    `listed` has the summaries in the store, and whether they are whole.
    """
    prefix = object_names.partition_prefix(topic_id, partition)
    end = 0
    for name, is_whole in listed.items():
        slot = bisect_left(segments, name.base_offset, key=_base)
        has_segments = slot < len(segments) and segments[slot].base_offset < name.end_offset
        if has_segments and is_whole:
            end = max(end, name.end_offset)
        elif name.leader_epoch <= leader_epoch:
            store.delete(f"{prefix}{name}{object_names.SUMMARY}")
    at = bisect_left(segments, end, key=_base)
    while len(segments) - at >= SEGMENTS:
        some = segments[at : at + SEGMENTS]
        data = encode(some)
        if len(data) > _BYTES_MAX:  # segments with very many leader epochs
            return
        name = SegmentName(some[0].base_offset, max(one.end_offset for one in some), max(leader_epoch, 0), new_id())
        store.put(f"{prefix}{name}{object_names.SUMMARY}", [data])
        at += SEGMENTS
