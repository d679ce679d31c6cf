"""Offsets by time: where partitions begin, end, or were at some moment. Each leader is asked once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pylogbroker.client.cluster import Cluster
from pylogbroker.client.consumer.codes import code_of
from pylogbroker.client.errors import ConnectionLost, RequestTimedOut
from pylogbroker.errors import ErrorCode
from pylogbroker.interfaces import TopicPartition
from pylogbroker.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

LATEST: Final = -1
EARLIEST: Final = -2

Found = dict[TopicPartition, int]
Refused = dict[TopicPartition, ErrorCode]


async def look_up(cluster: Cluster, times: Mapping[TopicPartition, int], committed: bool) -> tuple[Found, Refused]:
    """The first offset at or after each time, in ms, or LATEST or EARLIEST; -1 if there is none.

    `committed` is whether the end is that of committed records. Where the leader is not known or does not answer, the
    code is one that says to try again; the cluster is told to look again for leaders.
    """
    by_leader: dict[int, dict[TopicPartition, int]] = {}
    found: Found = {}
    refused: Refused = {}
    for key, time in times.items():
        leader = cluster.leader_of(*key)
        if leader is None:
            refused[key] = ErrorCode.LEADER_NOT_AVAILABLE
        else:
            by_leader.setdefault(leader, {})[key] = time
    for leader, asked in by_leader.items():
        try:
            answer = await cluster.send(leader, _request(asked, committed))
        except (ConnectionLost, RequestTimedOut):
            refused.update(dict.fromkeys(asked, ErrorCode.NETWORK_EXCEPTION))
        else:
            _read(answer, found, refused)
    for key in refused:
        cluster.leader_is_stale(*key)
    return found, refused


def _request(times: Mapping[TopicPartition, int], committed: bool) -> ListOffsetsRequest:
    topics: dict[str, ListOffsetsTopic] = {}
    for (topic, partition), time in times.items():
        found = topics.setdefault(topic, ListOffsetsTopic(topic))
        found.partitions.append(ListOffsetsPartition(partition, timestamp=time))
    return ListOffsetsRequest(-1, int(committed), list(topics.values()))


def _read(answer: ListOffsetsResponse, found: Found, refused: Refused) -> None:
    for topic in answer.topics:
        for each in topic.partitions:
            key = (topic.name, each.partition_index)
            if each.error_code:
                refused[key] = code_of(each.error_code)
            else:
                found[key] = _offset(each)


def _offset(answer: ListOffsetsPartitionResponse) -> int:
    return answer.old_style_offsets[0] if answer.old_style_offsets else answer.offset
