"""Share groups on a broker: members, topics that change, restarts, deletion, and the feature that offers them."""

from __future__ import annotations

from typing import Any

from pylogbroker.broker.apis import APIS
from pylogbroker.broker.apis.api_versions import handle as handle_api_versions
from pylogbroker.errors import ErrorCode
from pylogbroker.metadata.feature_levels import LevelChange
from pylogbroker.wire import Request
from pylogbroker.wire.messages.api_versions import ApiVersionsRequest
from pylogbroker.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from pylogbroker.wire.messages.delete_groups import DeleteGroupsRequest
from pylogbroker.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from pylogbroker.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from pylogbroker.wire.messages.list_groups import ListGroupsRequest
from pylogbroker.wire.messages.share_group_describe import ShareGroupDescribeRequest
from pylogbroker.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.broker.nodes import NodeTests
from tests.broker.trees import now

UNSAFE_DOWNGRADE = 3


class ShareGroupTests(NodeTests):
    settings = {
        "offsets.topic.num.partitions": "1",
        "share.coordinator.state.topic.num.partitions": "1",
        "group.share.assignment.interval.ms": "0",
    }

    def setUp(self) -> None:
        super().setUp()
        self.node.create("t", 2)
        now(self.node.broker.group_service.ensure_topic())

    def ask(self, request: Request) -> Any:
        api = next(api for api in self.node.broker.apis if api.key == request.api_key)
        return self.node.ask(api.handle, request)

    def beat(self, epoch: int = 0, *topics: str) -> Any:
        return self.ask(ShareGroupHeartbeatRequest("g", "m", epoch, None, list(topics) or None))

    def describe(self) -> Any:
        [described] = self.ask(ShareGroupDescribeRequest(["g"])).groups
        return described

    def offsets(self) -> dict[tuple[str, int], int]:
        request = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup("g", None)])
        [described] = self.ask(request).groups
        return {
            (topic.topic_name, partition.partition_index): partition.start_offset
            for topic in described.topics
            for partition in topic.partitions
        }

    def test_member_and_states_survive_a_restart(self) -> None:
        joined = self.beat(0, "t")
        self.assertEqual((joined.error_code, joined.member_id), (0, "m"))
        self.assertEqual([topic.partitions for topic in joined.assignment.topic_partitions], [[0, 1]])
        before = self.describe()
        self.restart()
        self.assertEqual(self.describe(), before)
        self.assertEqual(self.beat(joined.member_epoch).error_code, 0)
        self.assertEqual(self.offsets(), {("t", 0): -1, ("t", 1): -1})

    def test_topics_that_grow_and_go_are_followed(self) -> None:
        self.node.create("u")
        epoch = self.beat(0, "t", "u").member_epoch
        self.ask(CreatePartitionsRequest([CreatePartitionsTopic("t", 3, None)], 1_000))
        self.assertEqual(self.offsets(), {("t", 0): -1, ("t", 1): -1, ("t", 2): 0, ("u", 0): -1})
        grown = self.beat(epoch)
        self.assertEqual(sum(len(topic.partitions) for topic in grown.assignment.topic_partitions), 4)
        self.ask(DeleteTopicsRequest([DeleteTopicState("t")], timeout_ms=1_000))
        self.assertEqual(self.offsets(), {("u", 0): -1})
        left = self.beat(grown.member_epoch)
        self.assertEqual([topic.partitions for topic in left.assignment.topic_partitions], [[0]])

    def test_silent_member_is_removed_and_the_group_deleted(self) -> None:
        self.beat(0, "t")
        self.assertEqual(self.ask(DeleteGroupsRequest(["g"])).results[0].error_code, ErrorCode.NON_EMPTY_GROUP)
        self.node.clock.pump([1] * 46)
        self.assertEqual(self.describe().group_state, "Empty")
        listed = self.ask(ListGroupsRequest(types_filter=["share"])).groups
        self.assertEqual([(group.group_id, group.group_state) for group in listed], [("g", "Empty")])
        self.assertEqual(self.ask(DeleteGroupsRequest(["g"])).results[0].error_code, ErrorCode.NONE)
        self.restart()
        self.assertEqual(self.describe().error_code, ErrorCode.GROUP_ID_NOT_FOUND)

    def test_apis_are_offered_while_the_feature_is_on(self) -> None:
        keys = {api.key for api in APIS if api.name.startswith("ShareGroup") or api.name.endswith("ShareGroupOffsets")}
        self.assertEqual(keys, {76, 77, 90, 91, 92})
        self.assertLessEqual(keys, self.offered())
        now(self.node.broker.features.change([LevelChange("share.version", 0, UNSAFE_DOWNGRADE)]))
        self.assertFalse(keys & self.offered())
        self.assertEqual(self.beat(0, "t").error_code, ErrorCode.UNSUPPORTED_VERSION)
        self.assertEqual(self.describe().error_code, ErrorCode.UNSUPPORTED_VERSION)
        now(self.node.broker.features.change([LevelChange("share.version", 1)]))
        self.assertEqual(self.beat(0, "t").error_code, ErrorCode.NONE)

    def offered(self) -> set[int]:
        answer = self.node.ask(handle_api_versions, ApiVersionsRequest("test", "1"))
        return {api.api_key for api in answer.api_keys}
