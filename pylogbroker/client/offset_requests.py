"""Requests for offsets by time, and their answers."""

from __future__ import annotations

from collections.abc import Mapping

from pylogbroker.interfaces import TopicPartition
from pylogbroker.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)


def list_offsets_request(times: Mapping[TopicPartition, int], committed: bool) -> ListOffsetsRequest:
    """Request the first offset at or after each time in ms, LATEST or EARLIEST.

    With `committed`, LATEST is the last stable offset, else the high watermark.
    """
    topics: dict[str, ListOffsetsTopic] = {}
    for (topic, partition), time in times.items():
        topic_row = topics.setdefault(topic, ListOffsetsTopic(topic))
        topic_row.partitions.append(ListOffsetsPartition(partition, timestamp=time))
    return ListOffsetsRequest(-1, int(committed), list(topics.values()))


def listed_offset(answer: ListOffsetsPartitionResponse) -> int:
    """Return the offset of an answer without error, of any version."""
    return answer.old_style_offsets[0] if answer.old_style_offsets else answer.offset
