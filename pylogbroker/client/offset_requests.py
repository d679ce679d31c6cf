"""Requests for offsets by time."""

from __future__ import annotations

from collections.abc import Mapping

from pylogbroker.interfaces import TopicPartition
from pylogbroker.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic


def list_offsets_request(times: Mapping[TopicPartition, int], committed: bool) -> ListOffsetsRequest:
    """Request the first offset at or after each time in ms, LATEST or EARLIEST.

    With `committed`, LATEST is the last stable offset, else the high watermark.
    """
    topics: dict[str, ListOffsetsTopic] = {}
    for (topic, partition), time in times.items():
        found = topics.setdefault(topic, ListOffsetsTopic(topic))
        found.partitions.append(ListOffsetsPartition(partition, timestamp=time))
    return ListOffsetsRequest(-1, int(committed), list(topics.values()))
