"""Committed offsets of groups, whatever broker coordinates them, and the lag."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import Any, Final

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.groups import CommittedOffset
from pylogbroker.rpc.answer_rows import rows_by_key
from pylogbroker.rpc.errors import code_of
from pylogbroker.web.offsets import Key, known_ends
from pylogbroker.web.visitors import Visitor
from pylogbroker.wire import UnsupportedVersion
from pylogbroker.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

Committed = Mapping[Key, CommittedOffset]
LISTED_OFFSETS_MAX: Final = 20_000
"""Offsets of a list of groups, about; the other groups of the list have no lag."""
_VERSION_OF_ONE: Final = 7
"""The last version of requests for a single group."""
_VERSION_OF_SEVERAL: Final = 8


async def committed_of(visitor: Visitor, coordinator: int, group_id: str) -> Committed:
    """Return offsets of a group, also on topics that the visitor may not see; raise KafkaError."""
    if coordinator == visitor.services.node.id:
        fetched = visitor.services.groups.fetch(group_id)
        check(group_id, fetched.error)
        over = visitor.services.runtime.slices.over
        return {
            key: offset async for key, offset in over(fetched.offsets.items()) if isinstance(offset, CommittedOffset)
        }
    answer = await visitor.send(coordinator, OffsetFetchRequest(group_id, None), _VERSION_OF_ONE)
    check(group_id, answer.error_code)
    return {key: offset async for key, offset in visitor.services.runtime.slices.over(_rows(answer.topics))}


async def committed_of_each(visitor: Visitor, coordinator: int, ids: Sequence[str]) -> dict[str, Committed]:
    """Return offsets of groups of one coordinator, on topics that the visitor may see.

    Groups are left out that the visitor may not describe, or whose offsets are not known, or too many.
    """
    services, offsets, left = visitor.services, dict[str, Committed](), LISTED_OFFSETS_MAX
    over = services.runtime.slices.over
    ids = [group_id for group_id in ids if visitor.sees_group(group_id)]
    if coordinator == services.node.id:
        async for group_id in over(ids):
            left -= services.groups.count_offsets(group_id)
            if left < 0:
                break
            with suppress(KafkaError):
                offsets[group_id] = await visible(visitor, await committed_of(visitor, coordinator, group_id))
        return offsets
    with suppress(KafkaError, UnsupportedVersion):
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id, topics=None) for group_id in ids])
        answer = await visitor.send(coordinator, request, _VERSION_OF_SEVERAL)
        rows = rows_by_key(answer, "groups", coordinator, ids, attrgetter("group_id"))
        async for group in over(rows.values()):
            left -= sum(len(topic.partitions) for topic in group.topics)
            if left < 0:
                break
            if not group.error_code:
                offsets[group.group_id] = await visible(visitor, dict(_rows(group.topics)))
    return offsets


def _rows(topics: Iterable[Any]) -> Iterable[tuple[Key, CommittedOffset]]:
    """Return offsets of a response, without times, which it does not have."""
    for topic in topics:
        for partition in topic.partitions:
            if not partition.error_code and partition.committed_offset >= 0:
                metadata = partition.metadata or ""
                yield (
                    (topic.name, partition.partition_index),
                    CommittedOffset(partition.committed_offset, metadata=metadata),
                )


async def visible(visitor: Visitor, committed: Committed) -> Committed:
    """Return the offsets on topics that the visitor may see."""
    over = visitor.services.runtime.slices.over
    return {key: offset async for key, offset in over(committed.items()) if visitor.sees_topic(key[0])}


def check(group_id: str, number: int) -> None:
    """Raise KafkaError for an error of a group."""
    if number == ErrorCode.GROUP_ID_NOT_FOUND:
        raise KafkaError(f"there is no group {group_id!r}", ErrorCode.GROUP_ID_NOT_FOUND)
    if number:
        error = code_of(number)
        raise KafkaError(f"the group {group_id!r} cannot be read: {error.meaning}", error)


async def ends_of(visitor: Visitor, keys: Iterable[Key]) -> Mapping[Key, int]:
    """Return high watermarks, of the leader if this broker has no replica; unknown ones are left out."""
    hosted, over = visitor.services.partitions.hosted, visitor.services.runtime.slices.over
    requested = {key: None async for key in over(keys)}
    here = {key: hosted[key].log.high_watermark async for key in over(requested) if key in hosted}
    return here | await known_ends(visitor, [key async for key in over(requested) if key not in here])


def lag_at(committed: CommittedOffset, end: int | None) -> int | None:
    return None if end is None else max(0, end - committed.offset)


async def lag_of(visitor: Visitor, committed: Committed, ends: Mapping[Key, int]) -> int | None:
    """Return the sum of the lags that are known; None if none of several is."""
    lags = [lag async for lag in _lags(visitor, committed, ends) if lag is not None]
    return sum(lags) if lags or not committed else None


async def _lags(visitor: Visitor, committed: Committed, ends: Mapping[Key, int]) -> AsyncIterator[int | None]:
    async for key, offset in visitor.services.runtime.slices.over(committed.items()):
        yield lag_at(offset, ends.get(key))
