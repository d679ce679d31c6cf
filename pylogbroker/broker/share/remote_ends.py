"""Ends of logs that other brokers lead, for the lag of share groups."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from pylogbroker.broker.share.persister import StatePeers
from pylogbroker.errors import KafkaError
from pylogbroker.wire.messages.list_offsets import LATEST, ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

_CONSUMER: Final = -1


async def log_ends(
    peers: StatePeers, broker_id: int, partitions: Mapping[str, Collection[int]]
) -> dict[tuple[str, int], int]:
    """Return the high watermarks that a broker knows; none if it does not answer."""
    topics = [
        ListOffsetsTopic(name, [ListOffsetsPartition(number, timestamp=LATEST) for number in numbers])
        for name, numbers in partitions.items()
    ]
    try:
        response = await peers.send(broker_id, ListOffsetsRequest(_CONSUMER, 0, topics))
    except KafkaError:
        return {}
    return {
        (topic.name, partition.partition_index): partition.offset
        for topic in response.topics
        for partition in topic.partitions
        if not partition.error_code
    }
