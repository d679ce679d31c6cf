"""Groups of Kafka Streams on a broker: internal topics, topics that grow, restarts, and the feature of the groups."""

from __future__ import annotations

from typing import Any

from pylogbroker.broker.apis.api_versions import handle as handle_api_versions
from pylogbroker.errors import ErrorCode
from pylogbroker.metadata.feature_levels import LevelChange
from pylogbroker.metadata.image import topic_resource
from pylogbroker.wire import Request
from pylogbroker.wire.messages.api_versions import ApiVersionsRequest
from pylogbroker.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from pylogbroker.wire.messages.delete_groups import DeleteGroupsRequest
from pylogbroker.wire.messages.streams_group_describe import StreamsGroupDescribeRequest
from pylogbroker.wire.messages.streams_group_heartbeat import HeartbeatTopology, StreamsGroupHeartbeatRequest
from pylogbroker.wire.streams_topology import StreamsKeyValue, StreamsSubtopology, StreamsTopicInfo
from tests.broker.nodes import NodeTests
from tests.broker.trees import now

UNSAFE_DOWNGRADE = 3
KEYS = {88, 89}
COUNTS = "g-counts-changelog"
SETTINGS = [StreamsKeyValue("cleanup.policy", "compact")]
TOPOLOGY = HeartbeatTopology(
    0, [StreamsSubtopology("0", ["t"], state_changelog_topics=[StreamsTopicInfo(COUNTS, 0, 0, SETTINGS)])]
)


class StreamsGroupTests(NodeTests):
    settings = {
        "offsets.topic.num.partitions": "1",
        "group.streams.assignment.interval.ms": "0",
        "group.streams.initial.rebalance.delay.ms": "0",
    }

    def setUp(self) -> None:
        super().setUp()
        self.node.create("t", 2)
        now(self.node.broker.group_service.ensure_topic())

    def ask(self, request: Request) -> Any:
        api = next(api for api in self.node.broker.apis if api.key == request.api_key)
        return self.node.ask(api.handle, request)

    def join(self) -> Any:
        return self.ask(
            StreamsGroupHeartbeatRequest(
                "g",
                "m",
                rebalance_timeout_ms=60_000,
                topology=TOPOLOGY,
                active_tasks=[],
                standby_tasks=[],
                warmup_tasks=[],
                process_id="p",
            )
        )

    def beat(self, epoch: int) -> Any:
        return self.ask(StreamsGroupHeartbeatRequest("g", "m", epoch))

    def describe(self) -> Any:
        [described] = self.ask(StreamsGroupDescribeRequest(["g"])).groups
        return described

    def tasks(self) -> list[int]:
        [member] = self.describe().members
        return [number for task in member.assignment.active_tasks for number in task.partitions]

    def settle(self) -> None:
        [member] = self.describe().members
        self.beat(member.member_epoch)

    def test_internal_topics_have_the_settings_of_the_topology(self) -> None:
        self.join()
        topic = self.node.broker.metadata.topics[COUNTS]
        self.assertEqual(len(topic.partitions), 2)
        self.assertEqual(self.node.broker.metadata.image.settings(topic_resource(COUNTS))["cleanup.policy"], "compact")
        self.settle()
        self.assertEqual((self.tasks(), self.describe().group_state), ([0, 1], "Stable"))

    def test_topic_that_grows_makes_the_topology_invalid(self) -> None:
        self.join()
        self.settle()
        self.ask(CreatePartitionsRequest([CreatePartitionsTopic("t", 3, None)], 1_000))
        self.assertEqual(self.describe().group_state, "NotReady")  # the changelog has too few partitions
        self.ask(CreatePartitionsRequest([CreatePartitionsTopic(COUNTS, 3, None)], 1_000))
        self.assertEqual(self.describe().group_state, "Reconciling")
        self.settle()
        self.assertEqual(self.tasks(), [0, 1, 2])

    def test_group_is_there_after_a_restart_and_can_be_deleted(self) -> None:
        self.join()
        self.settle()
        before = self.describe()
        self.restart()
        self.assertEqual(self.describe(), before)
        self.assertEqual(self.ask(DeleteGroupsRequest(["g"])).results[0].error_code, ErrorCode.NON_EMPTY_GROUP)
        self.node.clock.pump([1] * 46)
        self.assertEqual(self.describe().group_state, "Empty")
        self.assertEqual(self.ask(DeleteGroupsRequest(["g"])).results[0].error_code, ErrorCode.NONE)
        self.restart()
        self.assertEqual(self.describe().error_code, ErrorCode.GROUP_ID_NOT_FOUND)

    def test_apis_are_offered_while_the_feature_is_on(self) -> None:
        self.assertLessEqual(KEYS, self.offered())
        now(self.node.broker.features.change([LevelChange("streams.version", 0, UNSAFE_DOWNGRADE)]))
        self.assertFalse(KEYS & self.offered())
        self.assertEqual(self.join().error_code, ErrorCode.UNSUPPORTED_VERSION)
        self.assertEqual(self.describe().error_code, ErrorCode.UNSUPPORTED_VERSION)
        now(self.node.broker.features.change([LevelChange("streams.version", 1)]))
        self.assertEqual(self.join().error_code, ErrorCode.NONE)

    def offered(self) -> set[int]:
        answer = self.node.ask(handle_api_versions, ApiVersionsRequest("test", "1"))
        return {api.api_key for api in answer.api_keys}
