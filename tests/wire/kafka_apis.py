"""APIs and versions that must be declared, and the messages of all declared APIs.

These are the first versions of Apache Kafka 3.9, up to the last ones of 4.4.

An API that is not in the table needs no entry: its messages are compared, too, unless it is this project's own.
"""

from __future__ import annotations

from collections.abc import Iterator

from pylogbroker.wire import SUPPORTED, WireMessage

LATEST = {
    "Produce": (0, 13),
    "Fetch": (1, 18),
    "ListOffsets": (2, 11),
    "Metadata": (3, 13),
    "LeaderAndIsr": (4, 7),
    "StopReplica": (5, 4),
    "UpdateMetadata": (6, 8),
    "ControlledShutdown": (7, 3),
    "OffsetCommit": (8, 10),
    "OffsetFetch": (9, 10),
    "FindCoordinator": (10, 6),
    "JoinGroup": (11, 9),
    "Heartbeat": (12, 4),
    "LeaveGroup": (13, 5),
    "SyncGroup": (14, 5),
    "DescribeGroups": (15, 6),
    "ListGroups": (16, 5),
    "ApiVersions": (18, 5),
    "CreateTopics": (19, 7),
    "DeleteTopics": (20, 6),
    "DeleteRecords": (21, 2),
    "InitProducerId": (22, 5),
    "OffsetForLeaderEpoch": (23, 4),
    "AddPartitionsToTxn": (24, 5),
    "AddOffsetsToTxn": (25, 4),
    "EndTxn": (26, 5),
    "WriteTxnMarkers": (27, 2),
    "TxnOffsetCommit": (28, 6),
    "DescribeAcls": (29, 3),
    "CreateAcls": (30, 3),
    "DeleteAcls": (31, 3),
    "DescribeConfigs": (32, 4),
    "AlterConfigs": (33, 2),
    "AlterReplicaLogDirs": (34, 2),
    "DescribeLogDirs": (35, 5),
    "CreatePartitions": (37, 3),
    "DeleteGroups": (42, 3),
    "ElectLeaders": (43, 2),
    "IncrementalAlterConfigs": (44, 1),
    "AlterPartitionReassignments": (45, 1),
    "ListPartitionReassignments": (46, 0),
    "OffsetDelete": (47, 0),
    "DescribeClientQuotas": (48, 1),
    "AlterClientQuotas": (49, 1),
    "AlterPartition": (56, 3),
    "UpdateFeatures": (57, 2),
    "DescribeQuorum": (55, 2),
    "Envelope": (58, 0),
    "FetchSnapshot": (59, 1),
    "BrokerRegistration": (62, 4),
    "BrokerHeartbeat": (63, 2),
    "UnregisterBroker": (64, 0),
    "AssignReplicasToDirs": (73, 0),
    "DescribeCluster": (60, 2),
    "DescribeProducers": (61, 0),
    "DescribeTransactions": (65, 0),
    "ListTransactions": (66, 2),
    "AllocateProducerIds": (67, 0),
    "ListConfigResources": (74, 1),
    "DescribeTopicPartitions": (75, 0),
    "StreamsGroupHeartbeat": (88, 1),
    "StreamsGroupDescribe": (89, 1),
}

OWN_APIS: set[str] = set()
"""APIs that Kafka does not have, each with the reason: nothing of them is compared with Kafka."""


def kafkas_names() -> list[str]:
    """Every message that Kafka has, by name."""
    own = {f"{api}{kind}" for api in OWN_APIS for kind in ("Request", "Response")}
    return [name for name in names() if name not in own]


def kafkas_cases() -> Iterator[tuple[str, int]]:
    """Every message that Kafka has, in each of its versions."""
    for name in kafkas_names():
        for version in versions(name):
            yield name, version


def names() -> list[str]:
    """Every message by name."""
    return [message.__name__ for pair in SUPPORTED.values() for message in pair]


def versions(message: str) -> range:
    """Every version of a message."""
    supported = declared(message).versions
    return range(supported.first, supported.last + 1)


def declared(message: str) -> type[WireMessage]:
    """Our class for a message."""
    return next(each for pair in SUPPORTED.values() for each in pair if each.__name__ == message)
