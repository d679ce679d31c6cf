"""ElectLeaders, reassignments and UpdateFeatures of a broker that is alone, as Apache Kafka answers with one broker."""

from __future__ import annotations

from pylogbroker.broker.apis import (
    alter_partition_reassignments,
    elect_leaders,
    list_partition_reassignments,
)
from pylogbroker.errors import ErrorCode
from pylogbroker.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from pylogbroker.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersTopic
from pylogbroker.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from tests.broker.nodes import NodeTests


class SoleControlTests(NodeTests):
    def setUp(self) -> None:
        super().setUp()
        self.node.create("t")

    def elect(self, kind: int, *topics: ElectLeadersTopic, all: bool = False) -> dict[tuple[str, int], int]:
        answer = self.node.ask(elect_leaders.handle, ElectLeadersRequest(kind, None if all else list(topics)))
        self.assertEqual(answer.error_code, ErrorCode.NONE)
        return {
            (topic.topic, each.partition_id): each.error_code
            for topic in answer.replica_election_results
            for each in topic.partition_result
        }

    def reassign(self, replicas: list[int] | None, topic: str = "t") -> int:
        wanted = [ReassignableTopic(topic, [ReassignablePartition(0, replicas)])]
        answer = self.node.ask(alter_partition_reassignments.handle, AlterPartitionReassignmentsRequest(topics=wanted))
        self.assertEqual(answer.error_code, ErrorCode.NONE)
        code: int = answer.responses[0].partitions[0].error_code
        return code

    def test_elections_are_not_needed(self) -> None:
        for kind in (0, 1):
            found = self.elect(kind, ElectLeadersTopic("t", [0, 7]), ElectLeadersTopic("nosuch", [0]))
            expected = {
                ("t", 0): ErrorCode.ELECTION_NOT_NEEDED,
                ("t", 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                ("nosuch", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            }
            self.assertEqual(found, expected)
            self.assertEqual(self.elect(kind, all=True), {})

    def test_a_partition_in_a_failed_directory_has_no_candidate(self) -> None:
        partition = self.node.broker.partitions.hosted.pop(("t", 0))
        self.addCleanup(self.node.broker.partitions.hosted.__setitem__, ("t", 0), partition)
        topic = ElectLeadersTopic("t", [0])
        self.assertEqual(self.elect(0, topic), {("t", 0): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE})
        self.assertEqual(self.elect(1, topic), {("t", 0): ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE})

    def test_partitions_are_reassigned_to_this_broker_alone(self) -> None:
        this = self.node.broker.node.id
        self.assertEqual(self.reassign([this]), ErrorCode.NONE)
        self.assertEqual(self.reassign(None), ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        for replicas in ([this + 1], [this, this + 1], [this, this], []):
            self.assertEqual(self.reassign(replicas), ErrorCode.INVALID_REPLICA_ASSIGNMENT)
        self.assertEqual(self.reassign([this], "nosuch"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        answer = self.node.ask(list_partition_reassignments.handle, ListPartitionReassignmentsRequest(topics=None))
        self.assertEqual((answer.error_code, answer.topics), (ErrorCode.NONE, []))
