"""Answers to requests of consumer groups of KIP-848, in the usual and in the wrong cases, as Kafka 4.4 gives them.

`--against kafka4` asks Kafka 4.4. Epochs differ: Kafka's groups begin at 1 or 2, ours at 0.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any, Final
from uuid import UUID

import attrs
import pytest

from pylogbroker.errors import ErrorCode
from pylogbroker.interfaces import Subscription
from pylogbroker.wire.consumer_protocol import decode_assignment, encode_assignment, encode_subscription
from pylogbroker.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest, DescribedConsumerGroup
from pylogbroker.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    OwnedTopicPartitions,
)
from pylogbroker.wire.messages.delete_groups import DeleteGroupsRequest
from pylogbroker.wire.messages.describe_groups import DescribeGroupsRequest
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
from pylogbroker.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from pylogbroker.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
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
STALE, NOT_FOUND = ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND


@attrs.define
class Group:
    """A group, of members that subscribe to a topic of two partitions, and its requests."""

    ask: Ask
    id: str
    topic: str
    topic_id: UUID = attrs.field(init=False)

    def beat(self, member_id: str, epoch: int, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        request = ConsumerGroupHeartbeatRequest(self.id, member_id, epoch, **fields)
        answer: ConsumerGroupHeartbeatResponse = self.ask(request, 1)
        return answer

    def join(self, member_id: str, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        usual = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": [self.topic], "topic_partitions": []}
        return self.beat(member_id, 0, **(usual | fields))

    def own(self, *numbers: int) -> list[OwnedTopicPartitions]:
        return [OwnedTopicPartitions(self.topic_id, list(numbers))]

    def error(self, member_id: str, epoch: int, **fields: Any) -> ErrorCode:
        answer = self.beat(member_id, epoch, **fields)
        assert answer.error_code in NOT_READY or bool(answer.error_code) == bool(answer.error_message)
        return ErrorCode(answer.error_code)

    def commit(self, member_id: str, epoch: int, *numbers: int, version: int = 9) -> set[ErrorCode]:
        partitions = [OffsetCommitRequestPartition(number, 5) for number in numbers or (0,)]
        topics = [OffsetCommitRequestTopic(self.topic, partitions=partitions)]
        request = OffsetCommitRequest(self.id, epoch, member_id, topics=topics)
        [topic] = self.ask(request, version).topics
        return {ErrorCode(partition.error_code) for partition in topic.partitions}

    def fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        topics = [OffsetFetchRequestTopics(self.topic, partition_indexes=[0])]
        groups = [OffsetFetchRequestGroup(self.id, member_id=member_id, member_epoch=epoch, topics=topics)]
        return ErrorCode(self.ask(OffsetFetchRequest(groups=groups), 9).groups[0].error_code)

    def describe(self) -> DescribedConsumerGroup:
        [described] = self.ask(ConsumerGroupDescribeRequest([self.id]), 1).groups
        return described  # type: ignore[no-any-return]

    def classic_join(self, member_id: str = "", **fields: Any) -> Any:
        metadata = encode_subscription(Subscription((self.topic,)))
        usual = {"protocol_type": "consumer", "protocols": [JoinGroupRequestProtocol("range", metadata)]}
        request = JoinGroupRequest(
            self.id, session_timeout_ms=10_000, rebalance_timeout_ms=10_000, member_id=member_id, **(usual | fields)
        )
        return self.ask(request, 5)

    def states(self) -> dict[str, set[str]]:
        """Return the states by type, as filters of ListGroups show them."""
        states: dict[str, set[str]] = {}
        for group_type in ("CONSUMER", "classic"):
            for state in ("empty", "Assigning", "Reconciling", "Stable", "PreparingRebalance", "CompletingRebalance"):
                listed = self.ask(ListGroupsRequest([state], [group_type]), 5).groups
                for group in listed:
                    if group.group_id == self.id:
                        states.setdefault(group.group_type, set()).add(group.group_state)
        return states


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
    interval = AlterableConfig("consumer.assignment.interval.ms", value="0")
    altered = ask(IncrementalAlterConfigsRequest([AlterConfigsResource(GROUP_RESOURCE, group.id, [interval])]), 1)
    assert [result.error_code for result in altered.responses] == [0]
    wait_until(lambda: group.error("nobody", 1) not in NOT_READY)
    return group


def joined(group: Group, member_id: str, **fields: Any) -> ConsumerGroupHeartbeatResponse:
    """Let the first member join, which gets all partitions."""
    answer = group.join(member_id, **fields)
    assert (answer.error_code, answer.member_id) == (0, member_id)
    assert answer.assignment is not None
    [topic] = answer.assignment.topic_partitions
    assert sorted(topic.partitions) == [0, 1]
    group.topic_id = topic.topic_id
    return answer


WRONG_FIRST: dict[str, tuple[dict[str, Any], ErrorCode]] = {
    "unknown assignor": ({"server_assignor": "nope"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
    "class of an assignor": (
        {"server_assignor": "org.apache.kafka.coordinator.group.assignor.RangeAssignor"},
        ErrorCode.UNSUPPORTED_ASSIGNOR,
    ),
    "bad regular expression": (
        {"subscribed_topic_names": None, "subscribed_topic_regex": "a("},
        ErrorCode.INVALID_REGULAR_EXPRESSION,
    ),
    "empty instance id": ({"instance_id": ""}, INVALID),
    "empty rack": ({"rack_id": ""}, INVALID),
    "no rebalance timeout": ({"rebalance_timeout_ms": -1}, INVALID),
    "no partitions": ({"topic_partitions": None}, INVALID),
    "partitions at first": ({"topic_partitions": [OwnedTopicPartitions(UUID(int=5), [0])]}, INVALID),
    "no subscription": ({"subscribed_topic_names": None}, INVALID),
}


@pytest.mark.parametrize("case", WRONG_FIRST)
def test_first_heartbeats_that_are_wrong(group: Group, case: str) -> None:
    fields, code = WRONG_FIRST[case]
    answer = group.join("m", **fields)
    assert answer.error_code == code
    assert answer.error_message
    assert group.describe().error_code == NOT_FOUND


def test_an_expression_that_cannot_be_read_says_why(group: Group) -> None:
    answer = group.join("m", subscribed_topic_names=None, subscribed_topic_regex="a(")
    assert "a(" in (answer.error_message or "")
    assert "missing" in (answer.error_message or "")


def test_epochs_and_ids_that_are_wrong(group: Group) -> None:
    assert group.error("m", 3) == NOT_FOUND
    assert group.error("m", -1) == NOT_FOUND
    assert group.error("", 0) == INVALID
    epoch = joined(group, "m").member_epoch
    assert group.error("other", epoch) == UNKNOWN
    assert group.error("other", -1) == UNKNOWN
    assert group.error("m", -2) == INVALID
    assert group.error("m", -3) == INVALID
    assert group.error("m", epoch + 1, topic_partitions=[]) == FENCED
    again = group.join("m")
    assert (again.error_code, again.member_epoch) == (0, epoch)
    left = group.beat("m", -1)
    assert (left.error_code, left.member_epoch) == (0, -1)
    assert group.error("m", epoch) == UNKNOWN
    assert group.states() == {"consumer": {"Empty"}}


def test_subscriptions_that_match_nothing(group: Group) -> None:
    for member_id, fields in {
        "none": {"subscribed_topic_names": []},
        "invalid": {"subscribed_topic_names": ["a b"]},
        "missing": {"subscribed_topic_names": [f"{group.topic}-missing"]},
        "expression": {"subscribed_topic_names": None, "subscribed_topic_regex": f"{group.topic}-missing.*"},
    }.items():
        answer = group.join(member_id, **fields)
        assert (answer.error_code, answer.assignment and answer.assignment.topic_partitions) == (0, [])


def test_partitions_move_from_one_member_to_another(group: Group) -> None:
    epoch = joined(group, "a").member_epoch
    assert group.join("b").assignment.topic_partitions == []  # type: ignore[union-attr]
    asked = group.beat("a", epoch)
    [kept] = asked.assignment.topic_partitions  # type: ignore[union-attr]
    assert (asked.member_epoch, len(kept.partitions)) == (epoch, 1)
    [kept_number] = kept.partitions
    described = {member.member_id: member for member in group.describe().members}
    [assigned], [target] = described["a"].assignment.topic_partitions, described["a"].target_assignment.topic_partitions
    assert (sorted(assigned.partitions), target.partitions) == ([0, 1], [kept_number])
    assert group.states() == {"consumer": {"Reconciling"}}
    assert group.commit("a", epoch, 0, 1) == {ErrorCode.NONE}
    after = group.beat("a", epoch, topic_partitions=group.own(kept_number))
    assert (after.error_code, after.assignment) == (0, None)
    assert after.member_epoch > epoch
    assert group.error("a", epoch, topic_partitions=group.own(1 - kept_number)) == FENCED
    repeated = group.beat("a", epoch, topic_partitions=group.own(kept_number))
    assert (repeated.error_code, repeated.member_epoch) == (0, after.member_epoch)
    [given] = group.beat("b", after.member_epoch).assignment.topic_partitions  # type: ignore[union-attr]
    assert given.partitions == [1 - kept_number]
    assert group.states() == {"consumer": {"Stable"}}
    check_commits(group, epoch, after.member_epoch, kept_number)


def check_commits(group: Group, before: int, epoch: int, kept: int) -> None:
    """Check commits of a member that has kept one partition since an epoch, and given the other away."""
    assert group.commit("a", epoch, 0, 1) == {ErrorCode.NONE}
    assert group.commit("a", before, kept) == {ErrorCode.NONE}
    assert group.commit("a", before, 1 - kept) == {STALE}
    assert group.commit("a", before, 0, 1) == {STALE}
    assert group.commit("a", before - 1) == group.commit("a", epoch + 1) == group.commit("a", -1) == {STALE}
    assert group.commit("a", epoch, version=8) == {ErrorCode.UNSUPPORTED_VERSION}
    assert group.commit("", -1) == group.commit("nobody", epoch) == {UNKNOWN}
    assert group.fetch("a", epoch) == group.fetch(None, -1) == ErrorCode.NONE
    assert group.fetch("a", before) == group.fetch("a", -1) == STALE
    assert group.fetch("nobody", epoch) == UNKNOWN


def test_static_members(group: Group) -> None:
    epoch = joined(group, "a", instance_id="i").member_epoch
    assert group.join("b", instance_id="i").error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    assert group.error("a", epoch, instance_id="other") == UNKNOWN
    assert group.beat("a", -2, instance_id="i").member_epoch == -2
    assert [(member.member_id, member.member_epoch) for member in group.describe().members] == [("a", -2)]
    back = group.join("b", instance_id="i")
    [topic] = back.assignment.topic_partitions  # type: ignore[union-attr]
    assert (back.member_epoch, sorted(topic.partitions)) == (epoch, [0, 1])
    assert group.error("a", epoch, instance_id="i") == ErrorCode.FENCED_INSTANCE_ID
    assert group.error("a", -1, instance_id="i") == ErrorCode.FENCED_INSTANCE_ID
    assert group.error("a", epoch) == UNKNOWN
    assert group.error("b", epoch, instance_id="i") == group.error("b", epoch) == ErrorCode.NONE
    assert group.error("b", -2, instance_id="i") == group.error("b", -2, instance_id="i") == ErrorCode.NONE
    assert group.error("b", epoch, instance_id="i") == FENCED
    assert group.join("b", instance_id="i").member_epoch == epoch
    assert group.error("b", -1, instance_id="i") == ErrorCode.NONE


def test_other_apis_on_a_group_with_members(group: Group) -> None:
    epoch = joined(group, "m").member_epoch
    assert group.commit("m", epoch) == {ErrorCode.NONE}
    [described] = group.ask(DescribeGroupsRequest([group.id]), 6).groups
    assert (described.error_code, described.group_state) == (NOT_FOUND, "Dead")
    assert described.error_message == f"Group {group.id} is not a classic group."
    [described] = group.ask(DescribeGroupsRequest([group.id]), 5).groups
    assert (described.error_code, described.group_state) == (0, "Dead")
    topics = [OffsetDeleteRequestTopic(group.topic, [OffsetDeleteRequestPartition(0)])]
    deleted = group.ask(OffsetDeleteRequest(group.id, topics), 0)
    assert [partition.error_code for topic in deleted.topics for partition in topic.partitions] == [
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    ]
    deletion = DeleteGroupsRequest([group.id])
    assert group.ask(deletion, 3).results[0].error_code == ErrorCode.NON_EMPTY_GROUP
    assert group.ask(HeartbeatRequest(group.id, epoch, "m", None), 4).error_code == UNKNOWN
    group.beat("m", -1)
    assert group.ask(OffsetDeleteRequest(group.id, topics), 0).topics[0].partitions[0].error_code == 0
    assert group.commit("", -1) == {ErrorCode.NONE}
    assert group.ask(deletion, 3).results[0].error_code == 0
    assert group.describe().error_code == NOT_FOUND


def test_a_group_of_another_protocol_keeps_it(group: Group) -> None:
    protocols = [JoinGroupRequestProtocol("range", b"x")]
    member = group.classic_join(protocol_type="connect", protocols=protocols)
    if member.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        member = group.classic_join(member.member_id, protocol_type="connect", protocols=protocols)
    assert member.error_code == 0
    for _ in range(2):
        answer = group.join("new")
        assert (answer.error_code, bool(answer.error_message)) == (NOT_FOUND, True)
        group.ask(SyncGroupRequest(group.id, member.generation_id, member.member_id), 3)
    assert group.states() == {"classic": {"Stable"}}


def test_classic_members_need_a_subscription(group: Group) -> None:
    joined(group, "new")
    inconsistent = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    protocols = [JoinGroupRequestProtocol("range", b"x")]
    assert group.classic_join("", protocol_type="connect", protocols=protocols, group_instance_id="c").error_code == (
        inconsistent
    )
    assert group.classic_join("", protocols=protocols, group_instance_id="c").error_code == inconsistent


def test_a_classic_member_that_replaces_the_last_new_one_makes_a_classic_group(group: Group) -> None:
    """Kafka answers at once and lets the member join again; ours answers when the group has rebalanced."""
    joined(group, "a", instance_id="i")
    member = group.classic_join(group_instance_id="i")
    assert (member.error_code, member.protocol_name) == (0, "range")
    assert group.error("a", 1, instance_id="i") == NOT_FOUND
    while member.leader != member.member_id:
        member = group.classic_join(member.member_id, group_instance_id="i")
    assignments = {member.member_id: encode_assignment([(group.topic, 0), (group.topic, 1)])}
    synced = group.ask(
        SyncGroupRequest(
            group.id,
            member.generation_id,
            member.member_id,
            "i",
            assignments=[SyncGroupRequestAssignment(*assignment) for assignment in assignments.items()],
        ),
        3,
    )
    assert synced.error_code == 0
    assert group.states() == {"classic": {"Stable"}}


@attrs.define
class ClassicMember:
    """Member of the classic protocol in a group of KIP-848; it keeps what it has over rebalances."""

    group: Group
    id: str = ""
    generation: int = -1

    def join(self, owned: Collection[tuple[str, int]] = ()) -> ErrorCode:
        """Join a group of KIP-848, which has no leader."""
        answer = self._join(owned)
        if not answer.error_code:
            assert (answer.protocol_name, answer.leader, answer.members) == ("cooperative-sticky", "", [])
        return ErrorCode(answer.error_code)

    def join_alone(self) -> ErrorCode:
        """Become the leader of a classic group."""
        self._join(())
        answer = self._join(())
        assert answer.leader == self.id
        return ErrorCode(answer.error_code)

    def _join(self, owned: Collection[tuple[str, int]]) -> Any:
        metadata = encode_subscription(Subscription((self.group.topic,), tuple(sorted(owned))))
        protocols = [JoinGroupRequestProtocol("cooperative-sticky", metadata)]
        answer = self.group.classic_join(self.id, protocols=protocols)
        if answer.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            self.id, self.generation = answer.member_id, answer.generation_id
        return answer

    def assign_all(self) -> set[tuple[str, int]]:
        """Take all partitions, as the leader of a classic group."""
        assignment = encode_assignment([(self.group.topic, 0), (self.group.topic, 1)])
        given = [SyncGroupRequestAssignment(self.id, assignment)]
        request = SyncGroupRequest(
            self.group.id, self.generation, self.id, None, "consumer", "cooperative-sticky", given
        )
        answer = self.group.ask(request, 5)
        assert answer.error_code == 0
        return set(decode_assignment(answer.assignment))

    def sync(
        self, kind: str = "consumer", name: str = "cooperative-sticky", later: int = 0
    ) -> ErrorCode | set[tuple[str, int]]:
        """Return the assigned partitions, or an error."""
        request = SyncGroupRequest(self.group.id, self.generation + later, self.id, None, kind, name)
        answer = self.group.ask(request, 5)
        return ErrorCode(answer.error_code) if answer.error_code else set(decode_assignment(answer.assignment))

    def beat(self, later: int = 0) -> ErrorCode:
        request = HeartbeatRequest(self.group.id, self.generation + later, self.id, None)
        return ErrorCode(self.group.ask(request, 4).error_code)


def test_a_classic_member_shares_a_group(group: Group) -> None:
    illegal, rebalances = ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS
    epoch = joined(group, "new").member_epoch
    member = ClassicMember(group)
    assert (member.join(), member.join()) == (ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.NONE)
    assert (member.beat(), member.sync()) == (ErrorCode.NONE, set())
    assert (member.sync(later=-1), member.sync(later=1)) == (illegal, illegal)
    for kind, name in (("connect", "cooperative-sticky"), ("consumer", "range")):
        assert member.sync(kind, name) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert (member.beat(), member.beat(-1), member.beat(1)) == (ErrorCode.NONE, illegal, illegal)
    assert ClassicMember(group, "new", epoch).sync() == ClassicMember(group, "new", epoch).beat() == UNKNOWN
    [kept] = group.beat("new", epoch).assignment.topic_partitions  # type: ignore[union-attr]
    assert group.error("new", epoch, topic_partitions=[kept]) == ErrorCode.NONE
    assert (member.beat(), member.beat()) == (rebalances, rebalances)
    assert member.join() == ErrorCode.NONE
    [released] = {0, 1} - {*kept.partitions}
    assert (member.sync(), member.beat()) == ({(group.topic, released)}, ErrorCode.NONE)
    generation = member.generation
    assert group.commit(member.id, generation, released, version=8) == {ErrorCode.NONE}
    assert group.commit(member.id, generation, released) == {ErrorCode.NONE}
    assert group.commit(member.id, generation - 1) == group.commit(member.id, generation + 1) == {illegal}
    types = {described.member_id: described.member_type for described in group.describe().members}
    assert types == {"new": 1, member.id: 0}


def test_a_classic_member_becomes_a_new_one(group: Group) -> None:
    joined(group, "new")
    member = ClassicMember(group)
    assert (member.join(), member.join()) == (ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.NONE)
    assert group.join(member.id).error_code == ErrorCode.NONE
    assert (member.beat(), member.sync()) == (UNKNOWN, UNKNOWN)
    assert {described.member_type for described in group.describe().members} == {1}


def test_a_classic_group_with_members_becomes_one_of_kip_848(group: Group) -> None:
    """The classic member keeps its partitions until it has revoked what the new one is to have."""
    member = ClassicMember(group)
    all_partitions = {(group.topic, 0), (group.topic, 1)}
    assert member.join_alone() == ErrorCode.NONE
    assert member.assign_all() == all_partitions
    new = group.join("new")
    assert (new.error_code, new.assignment and new.assignment.topic_partitions) == (0, [])
    assert group.states() == {"consumer": {"Reconciling"}}
    assert member.sync() in (ErrorCode.REBALANCE_IN_PROGRESS, all_partitions)
    assert member.beat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert member.join(owned=all_partitions) == ErrorCode.NONE
    kept = member.sync()
    assert isinstance(kept, set)
    assert len(kept) == 1
    assert member.beat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert group.beat("new", new.member_epoch).assignment is None
    assert member.join(owned=kept) == ErrorCode.NONE
    assert (member.sync(), member.beat()) == (kept, ErrorCode.NONE)
    assignment = group.beat("new", new.member_epoch).assignment
    assert assignment is not None
    assert [topic.partitions for topic in assignment.topic_partitions] == [
        [number for _, number in sorted(all_partitions - kept)]
    ]
    assert group.states() == {"consumer": {"Stable"}}
    assert group.error("new", -1) == ErrorCode.NONE
    assert group.states() == {"classic": {"PreparingRebalance"}}
    assert member.beat() == ErrorCode.REBALANCE_IN_PROGRESS
