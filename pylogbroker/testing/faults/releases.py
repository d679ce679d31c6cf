"""Versions of each API that releases of Apache Kafka offer; those before 4.0 in ZooKeeper mode."""

from __future__ import annotations

from functools import cache
from typing import Final

from pylogbroker.testing.faults.names import api_key, unknown

_RELEASES: Final = (
    *("0.8.0", "0.8.1", "0.8.2", "0.9", "0.10.0", "0.10.1", "0.10.2", "0.11", "1.0", "1.1", "2.0", "2.1", "2.2", "2.3"),
    *("2.4", "2.5", "2.6", "2.7", "2.8", "3.0", "3.1", "3.2", "3.3", "3.4", "3.5", "3.6", "3.7", "3.8", "3.9"),
    *("4.0", "4.1", "4.2", "4.3", "4.4"),
)

_VERSIONS: Final = """
Produce                       0.8.0=0 0.9=1 0.10.0=2 0.11=3 1.0=5 2.0=6 2.1=7 2.4=8 2.8=9 3.7=10 3.8=11 4.0=12 4.1=13
Fetch                         0.8.0=0 0.9=1 0.10.0=2 0.10.1=3 0.11=5 1.0=6 1.1=7 2.0=8 2.1=10 2.3=11 2.7=12 3.1=13 \
3.5=15 3.7=16 3.9=17 4.1=18
ListOffsets                   0.8.0=0 0.10.1=1 0.11=2 2.0=3 2.1=4 2.2=5 2.8=6 3.0=7 3.5=8 3.9=9 4.0=10 4.2=11
Metadata                      0.8.0=0 0.10.0=1 0.10.1=2 0.11=4 1.0=5 2.0=6 2.1=7 2.3=8 2.4=9 2.8=11 3.1=12 4.0=13
OffsetCommit                  0.8.1=0 0.8.2=1 0.9=2 0.11=3 2.0=4 2.1=6 2.3=7 2.4=8 3.7=9 4.2=10
OffsetFetch                   0.8.1=0 0.8.2=1 0.11=3 2.0=4 2.1=5 2.4=6 2.5=7 3.0=8 3.7=9 4.2=10
FindCoordinator               0.8.2=0 0.11=1 2.0=2 2.4=3 3.0=4 3.8=5 3.9=6
JoinGroup                     0.9=0 0.10.1=1 0.11=2 2.0=3 2.2=4 2.3=5 2.4=6 2.5=7 3.2=9
Heartbeat                     0.9=0 0.11=1 2.0=2 2.3=3 2.4=4
LeaveGroup                    0.9=0 0.11=1 2.0=2 2.4=4 3.2=5
SyncGroup                     0.9=0 0.11=1 2.0=2 2.3=3 2.4=4 2.5=5
DescribeGroups                0.9=0 0.11=1 2.0=2 2.3=3 2.4=5 4.0=6
ListGroups                    0.9=0 0.11=1 2.0=2 2.4=3 2.6=4 3.8=5
SaslHandshake                 0.10.0=0 1.0=1
ApiVersions                   0.10.0=0 0.11=1 2.0=2 2.4=3 3.9=4 4.4=5
CreateTopics                  0.10.1=0 0.10.2=1 0.11=2 2.0=3 2.4=5 2.7=6 2.8=7
DeleteTopics                  0.10.1=0 0.11=1 2.0=2 2.1=3 2.4=4 2.7=5 2.8=6
DeleteRecords                 0.11=0 2.0=1 2.6=2
InitProducerId                0.11=0 2.0=1 2.4=2 2.5=3 2.7=4 3.8=5
OffsetForLeaderEpoch          0.11=0 2.0=1 2.1=2 2.3=3 2.8=4
AddPartitionsToTxn            0.11=0 2.0=1 2.7=2 2.8=3 3.6=4 3.8=5
AddOffsetsToTxn               0.11=0 2.0=1 2.7=2 2.8=3 3.8=4
EndTxn                        0.11=0 2.0=1 2.7=2 2.8=3 3.8=4 4.0=5
WriteTxnMarkers               0.11=0 2.8=1 4.2=2
TxnOffsetCommit               0.11=0 2.0=1 2.1=2 2.5=3 3.8=4 4.0=5 4.4=6
DescribeAcls                  0.11=0 2.0=1 2.5=2 3.3=3
CreateAcls                    0.11=0 2.0=1 2.5=2 3.3=3
DeleteAcls                    0.11=0 2.0=1 2.5=2 3.3=3
DescribeConfigs               0.11=0 1.1=1 2.0=2 2.6=3 2.8=4
AlterConfigs                  0.11=0 2.0=1 2.8=2
AlterReplicaLogDirs           1.0=0 2.0=1 2.8=2
DescribeLogDirs               1.0=0 2.0=1 2.6=2 3.2=3 3.3=4 4.3=5
SaslAuthenticate              1.0=0 2.2=1 2.5=2
CreatePartitions              1.0=0 2.0=1 2.5=2 2.7=3
CreateDelegationToken         1.1=0 2.0=1 2.4=2 3.3=3
RenewDelegationToken          1.1=0 2.0=1 2.4=2
ExpireDelegationToken         1.1=0 2.0=1 2.4=2
DescribeDelegationToken       1.1=0 2.0=1 2.4=2 3.3=3
DeleteGroups                  1.1=0 2.0=1 2.4=2 4.4=3
ElectLeaders                  2.2=0 2.4=2
IncrementalAlterConfigs       2.3=0 2.4=1
AlterPartitionReassignments   2.4=0 4.1=1
ListPartitionReassignments    2.4=0
OffsetDelete                  2.4=0
DescribeClientQuotas          2.6=0 2.8=1
AlterClientQuotas             2.6=0 2.8=1
DescribeUserScramCredentials  2.7=0
AlterUserScramCredentials     2.7=0
UpdateFeatures                2.7=0 3.3=1 4.0=2
DescribeCluster               2.8=0 3.7=1 4.0=2
DescribeProducers             2.8=0
DescribeTransactions          3.0=0
ListTransactions              3.0=0 3.8=1 4.1=2
ConsumerGroupHeartbeat        4.0=1
ConsumerGroupDescribe         4.0=1
GetTelemetrySubscriptions     4.0=0
PushTelemetry                 4.0=0
ListConfigResources           4.0=0 4.1=1
ShareGroupHeartbeat           4.1=1
ShareGroupDescribe            4.1=1
ShareFetch                    4.1=1 4.2=2
ShareAcknowledge              4.1=1 4.2=2
InitializeShareGroupState     4.1=0
ReadShareGroupState           4.1=0
WriteShareGroupState          4.1=0 4.2=1
DeleteShareGroupState         4.1=0
ReadShareGroupStateSummary    4.1=0 4.2=1
StreamsGroupHeartbeat         4.2=0 4.4=1
StreamsGroupDescribe          4.2=0 4.4=1
DescribeShareGroupOffsets     4.1=0 4.2=1
AlterShareGroupOffsets        4.1=0
DeleteShareGroupOffsets       4.1=0
DescribeTopicPartitions       4.0=0
"""

_OLDEST_IN_4: Final = """
Fetch=4 ListOffsets=1 OffsetCommit=2 OffsetFetch=1 CreateTopics=2 DeleteTopics=1 OffsetForLeaderEpoch=2 \
WriteTxnMarkers=1 DescribeAcls=1 CreateAcls=1 DeleteAcls=1 DescribeConfigs=1 AlterReplicaLogDirs=1 DescribeLogDirs=1 \
CreateDelegationToken=1 RenewDelegationToken=1 ExpireDelegationToken=1 DescribeDelegationToken=1
"""
"""Others begin at 0. So does Produce in answers, for old releases of librdkafka."""


def versions_of(release: str) -> dict[int, int]:
    """Return the newest version by API key; raise ValueError for an unknown release."""
    name = release.removesuffix(".0") if release.count(".") == 2 and not release.startswith("0.") else release
    if name not in _RELEASES:
        raise unknown("release", release, _RELEASES)
    upto = _RELEASES.index(name)
    newest = {}
    for key, changes in _changes().items():
        reached = [version for since, version in changes.items() if since <= upto]
        if reached:
            newest[key] = reached[-1]
    return newest


def oldest_of(release: str) -> dict[int, int]:
    """Return the oldest version by key of APIs that do not begin at version 0."""
    if not release.startswith("4."):
        return {}
    pairs = (entry.split("=") for entry in _OLDEST_IN_4.split())
    return {api_key(api): int(version) for api, version in pairs}


@cache
def _changes() -> dict[int, dict[int, int]]:
    """Return the versions by API key and number of the release that brought them."""
    by_api = {}
    for line in _VERSIONS.strip().splitlines():
        api, *changes = line.split()
        pairs = (change.split("=") for change in changes)
        by_api[api_key(api)] = {_RELEASES.index(release): int(version) for release, version in pairs}
    return by_api
