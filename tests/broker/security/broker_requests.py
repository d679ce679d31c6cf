"""Requests that brokers send each other, for this project's broker and Apache Kafka in ZooKeeper mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from pylogbroker.wire import Request
from pylogbroker.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from pylogbroker.wire.messages.alter_partition import (
    AlterPartitionData,
    AlterPartitionRequest,
    AlterPartitionTopicData,
)
from pylogbroker.wire.messages.controlled_shutdown import ControlledShutdownRequest
from pylogbroker.wire.messages.create_acls import AclCreation, CreateAclsRequest
from pylogbroker.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from pylogbroker.wire.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from pylogbroker.wire.messages.update_metadata import UpdateMetadataRequest
from tests.broker.security.answers import Ask, plain
from tests.broker.security.cases import PRINCIPAL, SUPER_HOST, Setting

DENIED_HOST = "127.0.1.250"
TOPIC_ID = UUID(int=5)
REQUESTS: Sequence[tuple[Request, int]] = (
    (
        LeaderAndIsrRequest(
            1, topic_states=[LeaderAndIsrTopicState("t", TOPIC_ID, [LeaderAndIsrPartitionState(partition_index=0)])]
        ),
        7,
    ),
    (StopReplicaRequest(1, topic_states=[StopReplicaTopicState("t", [StopReplicaPartitionState(0)])]), 4),
    (UpdateMetadataRequest(1), 8),
    (ControlledShutdownRequest(1), 3),
    (AlterPartitionRequest(1, 1, [AlterPartitionTopicData(topic_id=TOPIC_ID, partitions=[AlterPartitionData(0)])]), 3),
    (AllocateProducerIdsRequest(1, 1), 0),
)


def denied_answers(ask: Ask) -> dict[str, Any]:
    """Let only `SUPER_HOST` act as a broker; return the answers to another client."""
    ask(SUPER_HOST, CreateAclsRequest([AclCreation(4, "kafka-cluster", 3, PRINCIPAL, SUPER_HOST, 2, 3)]), 2)
    return {
        type(request).__name__: plain(ask(DENIED_HOST, request, version), Setting({}, -1), version)
        for request, version in REQUESTS
    }
