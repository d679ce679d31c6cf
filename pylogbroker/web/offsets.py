"""Offsets of partitions by time, or their first and last ones, whatever broker leads them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from typing import Final

from pylogbroker.errors import KafkaError
from pylogbroker.rpc.answer_rows import rows_by_key
from pylogbroker.rpc.errors import code_of
from pylogbroker.web.responsible_brokers import leader_of
from pylogbroker.web.visitors import Visitor
from pylogbroker.wire.messages.list_offsets import (
    EARLIEST,
    LATEST,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)

Key = tuple[str, int]
_ASKED_MAX: Final = 1000
"""Partitions of one request: to encode it must not take long."""


async def offsets_at(
    visitor: Visitor, keys: Iterable[Key], timestamp: int, is_committed: bool = False
) -> dict[Key, int]:
    """Return the offset of the first record since a time, -1 if there is none; raise KafkaError.

    EARLIEST and LATEST stand for the log's start and the high watermark, or if `is_committed` the last stable offset.
    """
    leaders: dict[int, list[Key]] = {}
    async for key in visitor.services.runtime.slices.over(keys):
        leaders.setdefault(leader_of(visitor, *key), []).append(key)
    offsets: dict[Key, int] = {}
    for leader, led in leaders.items():
        async for (topic, index), row in _answers(visitor, leader, led, timestamp, is_committed):
            if row.error_code:
                code = code_of(row.error_code)
                raise KafkaError(f"the offsets of {topic}-{index} are not known: {code.meaning}", code)
            offsets[topic, index] = row.offset
    return offsets


async def known_ends(visitor: Visitor, keys: Iterable[Key]) -> dict[Key, int]:
    """Return high watermarks; partitions that no broker answers for are left out."""
    return await _known(visitor, keys, LATEST)


async def known_starts(visitor: Visitor, keys: Iterable[Key]) -> dict[Key, int]:
    """Return first offsets; partitions that no broker answers for are left out."""
    return await _known(visitor, keys, EARLIEST)


async def _known(visitor: Visitor, keys: Iterable[Key], timestamp: int) -> dict[Key, int]:
    leaders: dict[int, list[Key]] = {}
    async for key in visitor.services.runtime.slices.over(keys):
        with suppress(KafkaError):
            leaders.setdefault(leader_of(visitor, *key), []).append(key)
    offsets: dict[Key, int] = {}
    for leader, led in leaders.items():
        with suppress(KafkaError):
            async for key, row in _answers(visitor, leader, led, timestamp):
                if not row.error_code:
                    offsets[key] = row.offset
    return offsets


async def times_at(visitor: Visitor, keys: Iterable[Key], timestamp: int) -> dict[Key, int]:
    """Return times of the first records since a time, or with MAX_TIMESTAMP of the newest ones; -1 without records.

    Raise KafkaError.
    """
    leaders: dict[int, list[Key]] = {}
    async for key in visitor.services.runtime.slices.over(keys):
        leaders.setdefault(leader_of(visitor, *key), []).append(key)
    times: dict[Key, int] = {}
    for leader, led in leaders.items():
        async for key, row in _answers(visitor, leader, led, timestamp):
            if not row.error_code:
                times[key] = row.timestamp
    return times


async def _answers(
    visitor: Visitor, leader: int, keys: Sequence[Key], timestamp: int, is_committed: bool = False
) -> AsyncIterator[tuple[Key, ListOffsetsPartitionResponse]]:
    for start in range(0, len(keys), _ASKED_MAX):
        topics: dict[str, ListOffsetsTopic] = {}
        some = keys[start : start + _ASKED_MAX]
        for topic, index in some:
            row = ListOffsetsPartition(index, timestamp=timestamp)
            topics.setdefault(topic, ListOffsetsTopic(topic)).partitions.append(row)
        answer = await visitor.ask(ListOffsetsRequest(-1, int(is_committed), [*topics.values()]), leader)
        for key, partition in rows_by_key(answer, "topics.partitions", leader, some, _key).items():
            yield key, partition


def _key(topic: ListOffsetsTopicResponse, partition: ListOffsetsPartitionResponse) -> Key:
    return topic.name, partition.partition_index
