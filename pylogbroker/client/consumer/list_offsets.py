"""Offsets by time, with one request for each leader."""

from __future__ import annotations

from collections.abc import Mapping

from pylogbroker.client.cluster import Cluster
from pylogbroker.client.errors import ConnectionLost, RequestTimedOut
from pylogbroker.client.offset_requests import list_offsets_request, listed_offset
from pylogbroker.errors import ErrorCode
from pylogbroker.interfaces import TopicPartition
from pylogbroker.rpc.answer_rows import rows_by_key
from pylogbroker.rpc.errors import code_of
from pylogbroker.wire.messages.list_offsets import ListOffsetsPartitionResponse, ListOffsetsTopicResponse

Found = dict[TopicPartition, int]
Errors = dict[TopicPartition, ErrorCode]


async def list_offsets(cluster: Cluster, times: Mapping[TopicPartition, int], committed: bool) -> tuple[Found, Errors]:
    """Return errors, and the first offset at or after each time (ms, LATEST or EARLIEST), or -1.

    With `committed`, the end is the last stable offset. A missing or silent leader is a retriable error.
    """
    by_leader: dict[int, dict[TopicPartition, int]] = {}
    offsets: Found = {}
    errors: Errors = {}
    for key, time in times.items():
        leader = cluster.leader_of(*key)
        if leader is None:
            errors[key] = ErrorCode.LEADER_NOT_AVAILABLE
        else:
            by_leader.setdefault(leader, {})[key] = time
    for leader, partitions in by_leader.items():
        try:
            answer = await cluster.send(leader, list_offsets_request(partitions, committed))
        except (ConnectionLost, RequestTimedOut):
            errors.update(dict.fromkeys(partitions, ErrorCode.NETWORK_EXCEPTION))
        else:
            for key, row in rows_by_key(answer, "topics.partitions", leader, partitions, _key).items():
                if row.error_code:
                    errors[key] = code_of(row.error_code)
                else:
                    offsets[key] = listed_offset(row)
    for key in errors:
        cluster.leader_is_stale(*key)
    return offsets, errors


def _key(topic: ListOffsetsTopicResponse, partition: ListOffsetsPartitionResponse) -> TopicPartition:
    return topic.name, partition.partition_index
