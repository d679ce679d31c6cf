"""Answers to requests of share groups, in the usual and in the wrong cases, as Kafka 4.4 gives them.

`--against kafka4` asks Kafka 4.4. It answers the first heartbeat of a group before its partitions have a state, and
assigns them with a later one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final
from uuid import UUID

import attrs
import pytest

from pylogbroker.errors import ErrorCode
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from pylogbroker.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from pylogbroker.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from pylogbroker.wire.messages.delete_groups import DeleteGroupsRequest
from pylogbroker.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
)
from pylogbroker.wire.messages.describe_groups import DescribeGroupsRequest
from pylogbroker.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from pylogbroker.wire.messages.find_coordinator import FindCoordinatorRequest
from pylogbroker.wire.messages.heartbeat import HeartbeatRequest
from pylogbroker.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pylogbroker.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from pylogbroker.wire.messages.list_groups import ListGroupsRequest
from pylogbroker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pylogbroker.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from pylogbroker.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from pylogbroker.wire.messages.share_group_describe import DescribedShareGroup, ShareGroupDescribeRequest
from pylogbroker.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from tests.broker.security.answers import asking
from tests.clients.admin import create_topic
from tests.support.waiting import wait_until

Ask = Callable[[Any, int], Any]

GROUP_RESOURCE: Final = 32
NOT_READY = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
INVALID, FENCED, UNKNOWN = ErrorCode.INVALID_REQUEST, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID
NOT_FOUND, NO_TOPIC = ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
NONE, NOT_EMPTY = ErrorCode.NONE, ErrorCode.NON_EMPTY_GROUP


@attrs.define
class Group:
    """A share group, of members that subscribe to a topic of two partitions, and its requests."""

    ask: Ask
    id: str
    topic: str

    def beat(self, member_id: str, epoch: int, **fields: Any) -> ShareGroupHeartbeatResponse:
        answer: ShareGroupHeartbeatResponse = self.ask(
            ShareGroupHeartbeatRequest(
                **{"group_id": self.id, "member_id": member_id, "member_epoch": epoch, **fields}
            ),
            1,
        )
        return answer

    def join(self, member_id: str, **fields: Any) -> ShareGroupHeartbeatResponse:
        return self.beat(member_id, 0, **({"subscribed_topic_names": [self.topic]} | fields))

    def error(self, member_id: str, epoch: int, **fields: Any) -> ErrorCode:
        answer = self.beat(member_id, epoch, **fields)
        assert not (answer.error_code and answer.member_id), "an error has no member id"
        return ErrorCode(answer.error_code)

    def describe(self) -> DescribedShareGroup:
        [described] = self.ask(ShareGroupDescribeRequest([self.id]), 1).groups
        return described  # type: ignore[no-any-return]

    def assigned(self) -> dict[str, set[int]]:
        """Let all members send a heartbeat; return their partitions of the topic."""
        for member in self.describe().members:
            self.beat(member.member_id, member.member_epoch)
        return {
            member.member_id: {number for topic in member.assignment.topic_partitions for number in topic.partitions}
            for member in self.describe().members
        }

    def offsets(self, *numbers: int) -> dict[int, int]:
        """Return start offsets; of all partitions without numbers."""
        topics = [DescribeShareGroupOffsetsRequestTopic(self.topic, list(numbers))] if numbers else None
        request = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(self.id, topics)])
        [described] = self.ask(request, 1).groups
        assert described.error_code == NONE
        partitions = [partition for topic in described.topics for partition in topic.partitions]
        return {partition.partition_index: partition.start_offset for partition in partitions}

    def alter(self, starts: dict[int, int], topic: str | None = None) -> AlterShareGroupOffsetsResponse:
        partitions = [AlterShareGroupOffsetsRequestPartition(number, start) for number, start in starts.items()]
        topics = [AlterShareGroupOffsetsRequestTopic(topic or self.topic, partitions)]
        answer: AlterShareGroupOffsetsResponse = self.ask(AlterShareGroupOffsetsRequest(self.id, topics), 0)
        return answer

    def forget(self, *topics: str) -> DeleteShareGroupOffsetsResponse:
        named = [DeleteShareGroupOffsetsRequestTopic(topic) for topic in topics]
        answer: DeleteShareGroupOffsetsResponse = self.ask(DeleteShareGroupOffsetsRequest(self.id, named), 0)
        return answer

    def delete(self) -> ErrorCode:
        [result] = self.ask(DeleteGroupsRequest([self.id]), 2).results
        return ErrorCode(result.error_code)

    def state(self) -> set[str]:
        """Return the states in which ListGroups finds the group."""
        return {
            state
            for state in ("Empty", "stable", "Dead")
            for group in self.ask(ListGroupsRequest([state], ["SHARE"]), 5).groups
            if (group.group_id, group.group_type, group.protocol_type) == (self.id, "share", "share")
        }


@pytest.fixture
def ask(bootstrap: str) -> Iterator[Ask]:
    """Ask the broker; answers are decoded."""
    host, port = bootstrap.rsplit(":", 1)
    with asking(int(port)) as ask_from:
        yield partial(ask_from, host)


@pytest.fixture
def group(ask: Ask, bootstrap: str, fresh_name: Callable[[], str]) -> Group:
    """A group without members, which is assigned at once."""
    group = Group(ask, fresh_name(), fresh_name())
    create_topic(bootstrap, group.topic, 2)
    ask(FindCoordinatorRequest(coordinator_keys=[group.id]), 4)
    interval = AlterableConfig("share.assignment.interval.ms", value="0")
    altered = ask(IncrementalAlterConfigsRequest([AlterConfigsResource(GROUP_RESOURCE, group.id, [interval])]), 1)
    assert [result.error_code for result in altered.responses] == [0]
    wait_until(lambda: group.error("nobody", 1) not in NOT_READY)
    return group


def joined(group: Group, *member_ids: str) -> None:
    """Let members join, and wait until all partitions are assigned."""
    for member_id in member_ids:
        answer = group.join(member_id)
        assert (answer.error_code, answer.member_id) == (0, member_id)
        assert answer.assignment is not None
        assert answer.heartbeat_interval_ms > 0
    wait_until(lambda: set().union(*group.assigned().values()) == {0, 1})


def emptied(group: Group, *member_ids: str) -> None:
    for member_id in member_ids:
        left = group.beat(member_id, -1)
        assert (left.error_code, left.member_id, left.member_epoch) == (0, member_id, -1)


WRONG_FIRST: dict[str, dict[str, Any]] = {
    "no subscription": {"subscribed_topic_names": None},
    "empty subscription": {"subscribed_topic_names": []},
    "empty rack": {"rack_id": ""},
    "empty member id": {"member_id": ""},
    "empty group id": {"group_id": ""},
    "blank group id": {"group_id": " "},
    "epoch of a static member": {"epoch": -2},
}


@pytest.mark.parametrize("case", WRONG_FIRST)
def test_first_heartbeats_that_are_wrong(group: Group, case: str) -> None:
    first = {"member_id": "m", "epoch": 0, "subscribed_topic_names": [group.topic]}
    assert group.beat(**(first | WRONG_FIRST[case])).error_code == INVALID
    assert group.describe().error_code == NOT_FOUND


def test_epochs_and_ids_that_are_wrong(group: Group) -> None:
    assert group.error("m", 3) == NOT_FOUND
    assert group.error("m", -1) == NOT_FOUND
    joined(group, "m")
    [member] = group.describe().members
    assert (member.member_id, member.subscribed_topic_names) == ("m", [group.topic])
    epoch = member.member_epoch
    assert group.error("other", epoch) == UNKNOWN
    assert group.error("other", -1) == UNKNOWN
    assert group.error("m", epoch + 7) == FENCED
    assert group.error("m", -2) == INVALID
    again = group.join("m")
    assert (again.error_code, again.member_epoch) == (0, epoch)
    assert again.assignment is not None
    assert sorted(again.assignment.topic_partitions[0].partitions) == [0, 1]
    emptied(group, "m")
    assert group.error("m", epoch) == UNKNOWN
    assert group.state() == {"Empty"}


def test_members_share_partitions(group: Group) -> None:
    joined(group, "a")
    assert group.state() == {"stable"}
    joined(group, "a", "b")
    wait_until(lambda: sorted(map(sorted, group.assigned().values())) == [[0], [1]])
    joined(group, "a", "b", "c")
    wait_until(lambda: all(group.assigned().values()))
    described = group.describe()
    assert (described.group_state, described.assignor_name) == ("Stable", "simple")
    assert described.assignment_epoch == described.group_epoch
    emptied(group, "a", "b")
    wait_until(lambda: group.assigned() == {"c": {0, 1}})


def test_answer_without_changes_has_no_assignment(group: Group) -> None:
    joined(group, "a")
    [member] = group.describe().members
    answer = group.beat("a", member.member_epoch)
    assert (answer.error_code, answer.member_epoch, answer.assignment) == (0, member.member_epoch, None)
    changed = group.beat("a", member.member_epoch, subscribed_topic_names=[])
    assert changed.assignment is not None
    assert changed.assignment.topic_partitions == []


def test_group_is_of_one_type(group: Group) -> None:
    joined(group, "a")
    for empties in (False, True):
        if empties:
            emptied(group, "a")
        check_other_types(group)


def test_settings_are_among_the_operations_on_groups(group: Group) -> None:
    joined(group, "a")
    consumers = ConsumerGroupHeartbeatRequest(
        f"{group.id}-consumers", "c", 0, None, None, 30_000, [group.topic], topic_partitions=[]
    )
    assert group.ask(consumers, 1).error_code == NONE
    described = [
        *group.ask(DescribeGroupsRequest([f"{group.id}-nobody"], True), 5).groups,
        *group.ask(ConsumerGroupDescribeRequest([f"{group.id}-consumers"], True), 1).groups,
        *group.ask(ShareGroupDescribeRequest([group.id], True), 1).groups,
    ]
    operations = sum(
        1 << operation
        for operation in (
            AclOperation.READ,
            AclOperation.DELETE,
            AclOperation.DESCRIBE,
            AclOperation.DESCRIBE_CONFIGS,
            AclOperation.ALTER_CONFIGS,
        )
    )
    assert [answer.authorized_operations for answer in described] == [operations] * 3


def check_other_types(group: Group) -> None:
    """Check requests of other types of groups."""
    ask, name = group.ask, group.id
    consumer = ConsumerGroupHeartbeatRequest(name, "c", 0, None, None, 30_000, [group.topic], topic_partitions=[])
    assert ask(consumer, 1).error_code == NOT_FOUND
    assert ask(ConsumerGroupDescribeRequest([name]), 1).groups[0].error_code == NOT_FOUND
    classic = JoinGroupRequest(
        name, 10_000, 10_000, protocol_type="consumer", protocols=[JoinGroupRequestProtocol("range", bytes(10))]
    )
    assert ask(classic, 5).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert ask(HeartbeatRequest(name, 1, "c"), 4).error_code == UNKNOWN
    committed = [OffsetCommitRequestTopic(group.topic, partitions=[OffsetCommitRequestPartition(0, 3)])]
    for epoch, member_id in ((-1, ""), (1, "a")):
        [topic] = ask(OffsetCommitRequest(name, epoch, member_id, topics=committed), 9).topics
        assert [partition.error_code for partition in topic.partitions] == [NOT_FOUND]
    [fetched] = ask(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(name, topics=None)]), 9).groups
    assert (fetched.error_code, fetched.topics) == (NONE, [])
    deleted = [OffsetDeleteRequestTopic(group.topic, [OffsetDeleteRequestPartition(0)])]
    assert ask(OffsetDeleteRequest(name, deleted), 0).error_code == NOT_FOUND
    [described] = ask(DescribeGroupsRequest([name]), 6).groups
    assert (described.error_code, described.group_state) == (NOT_FOUND, "Dead")
    assert described.error_message == f"Group {name} is not a classic group."


def test_share_consumer_does_not_join_a_group_of_another_type(group: Group) -> None:
    consumer = ConsumerGroupHeartbeatRequest(group.id, "c", 0, None, None, 30_000, [group.topic], topic_partitions=[])
    assert group.ask(consumer, 1).error_code == NONE
    assert group.error("m", 0, subscribed_topic_names=[group.topic]) == NOT_FOUND
    assert group.error("m", -1) == NOT_FOUND
    assert group.describe().error_code == NOT_FOUND
    assert group.alter({0: 0}).error_code == NOT_FOUND
    assert group.forget(group.topic).error_code == NOT_FOUND
    assert group.offsets() == {}
    assert group.offsets(0) == {0: -1}


def test_offsets_are_altered_and_deleted_without_members(group: Group) -> None:
    joined(group, "a")
    assert group.alter({0: 5}).error_code == NOT_EMPTY
    assert group.forget(group.topic).error_code == NOT_EMPTY
    assert group.delete() == NOT_EMPTY
    emptied(group, "a")
    altered = group.alter({0: 5, 9: 1})
    assert (altered.error_code, altered.responses[0].topic_name) == (NONE, group.topic)
    errors = {partition.partition_index: partition.error_code for partition in altered.responses[0].partitions}
    assert errors == {0: NONE, 9: NO_TOPIC}
    assert group.offsets() == {0: 5, 1: -1}
    group.alter({0: 4})
    assert group.offsets(0, 1) == {0: 4, 1: -1}
    [missing] = group.alter({0: 5}, topic="missing-topic").responses
    assert (missing.topic_id, missing.partitions[0].error_code) == (UUID(int=0), NO_TOPIC)
    forgotten = group.forget(group.topic, "missing-topic")
    assert {topic.topic_name: topic.error_code for topic in forgotten.responses} == {
        group.topic: NONE,
        "missing-topic": NO_TOPIC,
    }
    assert group.offsets() == {}
    [again] = group.forget(group.topic).responses
    assert (again.error_code, again.error_message) == (NO_TOPIC, "There is no offset information to delete.")
    joined(group, "b")


def test_group_is_created_by_its_offsets_and_deleted(group: Group) -> None:
    assert group.forget(group.topic).error_code == NOT_FOUND
    assert group.delete() == NOT_FOUND
    assert group.alter({1: 7}).error_code == NONE
    assert group.state() == {"Empty"}
    assert group.offsets() == {1: 7}
    assert group.delete() == NONE
    assert group.state() == set()
    assert group.offsets() == {}


def test_requests_without_a_group_id(group: Group) -> None:
    unnamed = attrs.evolve(group, id="")
    assert unnamed.alter({0: 0}).error_code == ErrorCode.INVALID_GROUP_ID
    assert unnamed.forget(group.topic).error_code == ErrorCode.INVALID_GROUP_ID
    assert unnamed.offsets() == {}
