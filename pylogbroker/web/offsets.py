"""Offsets of partitions by time, or their first and last ones."""

from __future__ import annotations

from collections.abc import Iterable

from pylogbroker.errors import KafkaError
from pylogbroker.rpc.errors import code_of
from pylogbroker.web.visitors import Visitor
from pylogbroker.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

Key = tuple[str, int]


async def offsets_at(visitor: Visitor, keys: Iterable[Key], timestamp: int) -> dict[Key, int]:
    """Return the offset of the first record since a time, -1 if there is none; raise KafkaError.

    EARLIEST and LATEST stand for the log's start and the high watermark.
    """
    slices = visitor.services.runtime.slices
    topics: dict[str, ListOffsetsTopic] = {}
    async for topic, partition in slices.over(keys):
        row = ListOffsetsPartition(partition, timestamp=timestamp)
        topics.setdefault(topic, ListOffsetsTopic(topic)).partitions.append(row)
    answer = await visitor.ask(ListOffsetsRequest(-1, 0, [*topics.values()]))
    found: dict[Key, int] = {}
    async for topic, row in slices.over((each.name, row) for each in answer.topics for row in each.partitions):
        if row.error_code:
            code = code_of(row.error_code)
            raise KafkaError(f"the offsets of {topic}-{row.partition_index} are not known here: {code.meaning}", code)
        found[topic, row.partition_index] = row.offset
    return found
