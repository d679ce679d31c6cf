"""Deletes segments of a remote storage.

    step   effect                   after a crash behind it
    -----  -----------------------  --------------------------------------------------------------
    1      tombstone written        nobody reads the segment any more; the next leader goes on
    2      manifest deleted         as before
    3      record batches deleted   as before
    4      indexes deleted          only the tombstone is left

The tombstone stays for a day. A leader that was deposed may not have noticed it. It may finish a copy, or repeat a
request whose answer it missed. Its manifest is void if it arrives within that time.

A deleted partition has a tombstone of its own, outside of its objects: `deleted-partitions/<topic id>/<partition>`.
It goes when all objects are gone, so that a deletion that was interrupted is finished after the next start.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final
from uuid import UUID

from pylogbroker.java.text import is_digits
from pylogbroker.storage.remote import object_names
from pylogbroker.storage.remote.checked_store import CheckedStore, MissingObject
from pylogbroker.storage.remote.contents import Contents
from pylogbroker.storage.remote.object_names import SegmentName

TOMBSTONE_MS: Final = 86_400_000
_PARTITIONS: Final = "deleted-partitions/"
_PARTITION: Final = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})/([0-9]{1,10})")
_TIME_DIGITS_MAX: Final = 20
_DELETERS: Final = 8
_DELETIONS_WAITING_MAX: Final = 50

Pause = Callable[[], None]
"""Called between two requests; raises an exception to stop."""


def delete_segment(
    store: CheckedStore, topic_id: UUID, partition: int, name: SegmentName, now_ms: int, *, has_tombstone: bool = False
) -> None:
    """Delete a segment's objects but its tombstone. Blocks; raise StoreFailure."""
    prefix = object_names.partition_prefix(topic_id, partition) + str(name)
    if not has_tombstone:
        store.put(prefix + object_names.TOMBSTONE, [b"%d\n" % now_ms])
    for suffix in (object_names.MANIFEST, object_names.LOG, object_names.INDEX):
        store.delete(prefix + suffix)


def sweep(
    store: CheckedStore, topic_id: UUID, partition: int, contents: Contents, leader_epoch: int, now_ms: int
) -> frozenset[SegmentName]:
    """Finish deletions, and delete copies that earlier leaders have not finished. Blocks; raise StoreFailure.

    Return the segments that have tombstones now. No copy of this leader may be under way: copies of its own epoch are
    those of an earlier process.
    """
    prefix = object_names.partition_prefix(topic_id, partition)
    left = set(contents.deleted)
    for name in contents.undeleted:
        delete_segment(store, topic_id, partition, name, now_ms, has_tombstone=True)
    for name in contents.unfinished:
        if name.leader_epoch <= leader_epoch:
            delete_segment(store, topic_id, partition, name, now_ms)
            left.add(name)
    for name in contents.deleted - contents.undeleted:
        if now_ms - _written_ms(store, f"{prefix}{name}{object_names.TOMBSTONE}", now_ms) > TOMBSTONE_MS:
            store.delete(f"{prefix}{name}{object_names.TOMBSTONE}")
            left.discard(name)
    return frozenset(left)


def _written_ms(store: CheckedStore, name: str, now_ms: int) -> int:
    """Return the time in a tombstone. One that another leader has deleted meanwhile is old, a damaged one is new."""
    try:
        text = store.read(name, 0, _TIME_DIGITS_MAX).strip()
    except MissingObject:
        return 0
    return int(text) if is_digits(text.decode("ascii", "replace")) else now_ms


def delete_partition(store: CheckedStore, topic_id: UUID, partition: int, pause: Pause) -> None:
    """Delete all objects of a partition. Blocks; raise StoreFailure, or what `pause` raises."""
    tombstone = f"{_PARTITIONS}{topic_id}/{partition}"
    store.put(tombstone, [b"deleted\n"])
    prefix = object_names.partition_prefix(topic_id, partition)
    names = sorted((listed.name for listed in store.list(prefix)), key=_is_data)
    manifest_count = bisect_left(names, True, key=_is_data)
    for some in (names[:manifest_count], names[manifest_count:]):
        _delete_all(store, [prefix + name for name in some], pause)
    store.delete(tombstone)


def _delete_all(store: CheckedStore, names: list[str], pause: Pause) -> None:
    """Delete objects; many in several threads, since a request to a store far away takes long."""
    with ThreadPoolExecutor(_DELETERS) as executor:  # its threads begin with the first call
        for at in range(0, len(names), _DELETIONS_WAITING_MAX):
            pause()
            some = names[at : at + _DELETIONS_WAITING_MAX]
            for _ in (executor.map if len(names) > _DELETIONS_WAITING_MAX else map)(store.delete, some):
                pass


def interrupted_partitions(store: CheckedStore) -> Iterable[tuple[UUID, int]]:
    """Return the partitions whose deletion was not finished. Blocks; raise StoreFailure."""
    for listed in store.list(_PARTITIONS):
        match = _PARTITION.fullmatch(listed.name)
        if match is not None:
            yield UUID(match[1]), int(match[2])


def _is_data(name: str) -> bool:
    return not name.endswith(object_names.MANIFEST)
