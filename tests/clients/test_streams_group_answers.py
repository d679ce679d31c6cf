"""Answers to requests of groups of Kafka Streams (KIP-1071), from members that a test plays, as Kafka 4.4 gives them.

`--against kafka4` asks Kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from pylogbroker.errors import ErrorCode
from pylogbroker.groups.streams.states import StatusCode
from pylogbroker.wire.messages.describe_groups import DescribeGroupsRequest
from pylogbroker.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from pylogbroker.wire.messages.streams_group_heartbeat import (
    HeartbeatTopology,
)
from pylogbroker.wire.streams_topology import (
    StreamsEndpoint,
    StreamsSubtopology,
    StreamsTaskIds,
)
from tests.broker.security.answers import asking
from tests.clients.streams_members import (
    BAD_TOPOLOGY,
    FENCED,
    INVALID,
    NO_TASKS,
    NOT_FOUND,
    NOTHING,
    UNKNOWN,
    StreamsMembers,
    joined,
    streams_group,
)

Ask = Callable[[Any, int], Any]


@pytest.fixture
def ask(bootstrap: str) -> Iterator[Ask]:
    """Ask the broker; answers are decoded."""
    host, port = bootstrap.rsplit(":", 1)
    with asking(int(port)) as ask_from:
        yield partial(ask_from, host)


@pytest.fixture
def group(ask: Ask, bootstrap: str, fresh_name: Callable[[], str]) -> StreamsMembers:
    return streams_group(ask, bootstrap, fresh_name(), fresh_name())


WRONG: dict[str, tuple[dict[str, Any], ErrorCode]] = {
    "no member id": ({"member_id": ""}, INVALID),
    "no rebalance timeout": ({"rebalance_timeout_ms": -1}, INVALID),
    "no topology": ({"topology": None}, INVALID),
    "tasks": ({"active_tasks": [StreamsTaskIds("0", [0])]}, INVALID),
    "one role of tasks": ({"active_tasks": NO_TASKS, "standby_tasks": None, "warmup_tasks": NO_TASKS}, INVALID),
    "empty rack": ({"rack_id": ""}, INVALID),
    "empty instance id": ({"instance_id": ""}, INVALID),
    "changelog with partitions": ({"topology": StreamsMembers(lambda *_: None, "g", "t").topology(0, 3)}, BAD_TOPOLOGY),
    "regular expression": (
        {"topology": HeartbeatTopology(0, [StreamsSubtopology("0", source_topic_regex=["a.*"])])},
        INVALID,
    ),
    "internal topic": (
        {"topology": HeartbeatTopology(0, [StreamsSubtopology("0", ["__consumer_offsets"])])},
        BAD_TOPOLOGY,
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_first_heartbeats_are_rejected(group: StreamsMembers, case: str) -> None:
    fields, code = WRONG[case]
    assert group.join(**({"member_id": "a"} | fields)).error_code == code
    assert group.state() == set()


def test_wrong_epochs_and_ids_are_rejected(group: StreamsMembers) -> None:
    assert group.error("a", 1) == NOT_FOUND
    joined(group, "a")
    [member] = group.describe().members
    assert group.error("a", member.member_epoch + 1) == FENCED
    assert group.error("b", member.member_epoch) == UNKNOWN
    assert group.error("a", -3) == INVALID
    assert group.error("a", -2) == INVALID
    assert group.error("a", member.member_epoch, topology=group.topology()) == INVALID
    assert group.error("a", member.member_epoch, **NOTHING | {"active_tasks": [StreamsTaskIds("7", [0])]}) == INVALID


def test_internal_topics_are_created_and_all_tasks_assigned(group: StreamsMembers) -> None:
    first = group.join("a")
    assert [status.status_code for status in first.status or ()] == [StatusCode.MISSING_INTERNAL_TOPICS]
    assert group.settle("a") == {"a": {"0": {0, 1, 2}, "1": {0, 1, 2}}}
    topics = group.ask(MetadataRequest([MetadataRequestTopic(name=name) for name in group.internal]), 8).topics
    assert {topic.name: len(topic.partitions) for topic in topics} == dict.fromkeys(group.internal, 3)


def test_members_share_tasks_and_give_them_back(group: StreamsMembers) -> None:
    tasks = joined(group, "a", "b")
    for subtopology in "01":
        shares = [tasks[name].get(subtopology, set()) for name in "ab"]
        assert not shares[0] & shares[1]
        assert shares[0] | shares[1] == {0, 1, 2}
    assert [sum(map(len, tasks[name].values())) for name in "ab"] == [3, 3]
    assert group.beat("a", -1).member_epoch == -1
    assert group.settle("b") == {"b": {"0": {0, 1, 2}, "1": {0, 1, 2}}}


def test_static_member_comes_back(group: StreamsMembers) -> None:
    assert group.join("a", instance_id="i").error_code == 0
    group.settle("a")
    assert group.join("b", instance_id="i").error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    assert group.error("a", -2, instance_id="i") == 0
    back = group.join("b", instance_id="i", process_id="p-a")
    assert (back.error_code, len(back.active_tasks or ())) == (0, 2)
    assert group.error("a", back.member_epoch, instance_id="i") == ErrorCode.FENCED_INSTANCE_ID


def test_other_topology_is_rejected(group: StreamsMembers) -> None:
    assert group.join("a", topology=group.topology(epoch=1)).error_code == 0
    topology = group.topology(epoch=2)
    topology.subtopologies.pop()
    assert group.join("b", topology=topology).error_code == INVALID
    codes = [status.status_code for status in group.join("c", topology=group.topology()).status or ()]
    assert StatusCode.STALE_TOPOLOGY in codes


def test_missing_source_is_a_status(group: StreamsMembers) -> None:
    group.topic += "-missing"
    answer = group.join("a")
    assert [status.status_code for status in answer.status or ()] == [StatusCode.MISSING_SOURCE_TOPICS]
    assert group.describe().group_state == "NotReady"


def test_shutdown_reaches_all_members(group: StreamsMembers) -> None:
    joined(group, "a", "b")
    epochs = {member.member_id: member.member_epoch for member in group.describe().members}
    group.beat("a", epochs["a"], shutdown_application=True)
    codes = [status.status_code for status in group.beat("b", epochs["b"]).status or ()]
    assert codes == [StatusCode.SHUTDOWN_APPLICATION]


def test_endpoints_are_sent_to_members_without_their_epoch(group: StreamsMembers) -> None:
    assert group.join("a", user_endpoint=StreamsEndpoint("host", 7)).error_code == 0
    group.settle("a")
    [member] = group.describe().members
    answer = group.beat("a", member.member_epoch, endpoint_information_epoch=-7)
    [endpoint] = answer.partitions_by_user_endpoint or ()
    assert (endpoint.user_endpoint.host, endpoint.user_endpoint.port) == ("host", 7)
    partitions = {topic.topic: set(topic.partitions) for topic in endpoint.active_partitions}
    assert partitions == {group.topic: {0, 1, 2}, group.internal[0]: {0, 1, 2}}
    same = group.beat("a", member.member_epoch, endpoint_information_epoch=answer.endpoint_information_epoch)
    assert same.partitions_by_user_endpoint is None


def test_description_has_topology_and_members(group: StreamsMembers) -> None:
    joined(group, "a")
    described = group.describe()
    assert (described.group_state, described.assignor_name) == ("Stable", "sticky")
    assert described.group_epoch == described.assignment_epoch
    assert described.topology is not None
    repartition, counts = group.internal
    rows = {row.subtopology_id: row for row in described.topology.subtopologies or ()}
    assert rows["0"].source_topics == [group.topic]
    assert [(info.name, info.partitions) for info in rows["1"].state_changelog_topics] == [(counts, 3)]
    assert [(info.name, info.partitions) for info in rows["1"].repartition_source_topics] == [(repartition, 3)]
    [member] = described.members
    assert (member.member_id, member.process_id, member.topology_epoch, member.is_classic) == ("a", "p-a", 0, False)
    assert member.assignment == member.target_assignment
    [older] = group.ask(DescribeGroupsRequest([group.id]), 6).groups
    assert older.error_code == NOT_FOUND


def test_members_commit_at_their_epoch(group: StreamsMembers) -> None:
    joined(group, "a")
    [member] = group.describe().members
    assert group.commit("a", member.member_epoch) == 0
    assert group.commit("a", member.member_epoch + 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert group.commit("b", member.member_epoch) == UNKNOWN
    assert group.commit("", -1) == UNKNOWN


def test_group_is_deleted_without_members(group: StreamsMembers) -> None:
    joined(group, "a")
    assert group.state() == {"stable"}
    assert group.delete() == ErrorCode.NON_EMPTY_GROUP
    group.beat("a", -1)
    assert group.state() == {"Empty"}
    assert group.commit("", -1) == 0
    assert group.delete() == 0
    assert group.describe().error_code == NOT_FOUND
