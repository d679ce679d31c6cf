"""State of the controllers' quorum, as its leader describes it: DescribeQuorum."""

from __future__ import annotations

from typing import Final

from pylogbroker.broker.kraft.quorum import Quorum
from pylogbroker.errors import CorruptRecords
from pylogbroker.kraft.metadata_log import TOPIC
from pylogbroker.rpc.errors import raise_for
from pylogbroker.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    QuorumPartition,
    QuorumPartitionState,
    QuorumTopic,
)

REQUEST: Final = DescribeQuorumRequest([QuorumTopic(TOPIC, [QuorumPartition(0)])])
_PURPOSE: Final = "requests"


async def described_quorum(
    quorum: Quorum, purpose: str = _PURPOSE, timeout: float | None = None
) -> DescribeQuorumResponse:
    """Return the active controller's answer, which has a partition without an error.

    Raise ClientError without an answer, and KafkaError or CorruptRecords for one that says nothing of the quorum.
    """
    answer: DescribeQuorumResponse = await quorum.send(purpose, REQUEST, timeout=timeout)
    partition_of(answer)
    return answer


def partition_of(answer: DescribeQuorumResponse) -> QuorumPartitionState:
    """Return the state of the metadata log; raise KafkaError or CorruptRecords."""
    raise_for(answer.error_code, answer.error_message)
    try:
        partition = answer.topics[0].partitions[0]
    except IndexError:
        raise CorruptRecords("an answer to DescribeQuorum has no partition") from None
    raise_for(partition.error_code, partition.error_message)
    return partition


def end_of(partition: QuorumPartitionState) -> int:
    """Return an offset that is behind all committed records.

    A leader of a new epoch does not know the high watermark until a record of its own is committed; its log has all
    committed records.
    """
    if partition.high_watermark >= 0:
        return partition.high_watermark
    voters = partition.current_voters
    return next((voter.log_end_offset for voter in voters if voter.replica_id == partition.leader_id), 0)
