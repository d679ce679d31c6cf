"""Members of a group of Kafka Streams (KIP-1071) that a test plays, and the group's requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import attrs

from pylogbroker.errors import ErrorCode
from pylogbroker.wire.messages.delete_groups import DeleteGroupsRequest
from pylogbroker.wire.messages.find_coordinator import FindCoordinatorRequest
from pylogbroker.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pylogbroker.wire.messages.list_groups import ListGroupsRequest
from pylogbroker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pylogbroker.wire.messages.streams_group_describe import DescribedStreamsGroup, StreamsGroupDescribeRequest
from pylogbroker.wire.messages.streams_group_heartbeat import (
    HeartbeatTopology,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from pylogbroker.wire.streams_topology import (
    StreamsKeyValue,
    StreamsSubtopology,
    StreamsTaskIds,
    StreamsTopicInfo,
)
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
NOT_FOUND, BAD_TOPOLOGY = ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.STREAMS_INVALID_TOPOLOGY
NO_TASKS: Final[list[StreamsTaskIds]] = []
NOTHING: Final = {"active_tasks": NO_TASKS, "standby_tasks": NO_TASKS, "warmup_tasks": NO_TASKS}


@attrs.define
class StreamsMembers:
    """A group whose application counts the words of a topic of three partitions."""

    ask: Ask
    id: str
    topic: str

    @property
    def internal(self) -> tuple[str, str]:
        return f"{self.id}-by-word-repartition", f"{self.id}-counts-changelog"

    def topology(self, epoch: int = 0, changelog: int = 0) -> HeartbeatTopology:
        repartition, counts = self.internal
        settings = [StreamsKeyValue("cleanup.policy", "compact")]
        return HeartbeatTopology(
            epoch,
            [
                StreamsSubtopology("0", [self.topic], repartition_sink_topics=[repartition]),
                StreamsSubtopology(
                    "1",
                    state_changelog_topics=[StreamsTopicInfo(counts, changelog, 1, settings)],
                    repartition_source_topics=[StreamsTopicInfo(repartition, 0, 1)],
                ),
            ],
        )

    def beat(self, member_id: str, epoch: int, **fields: Any) -> StreamsGroupHeartbeatResponse:
        answer: StreamsGroupHeartbeatResponse = self.ask(
            StreamsGroupHeartbeatRequest(
                **{"group_id": self.id, "member_id": member_id, "member_epoch": epoch, **fields}
            ),
            1,
        )
        return answer

    def join(self, member_id: str, **fields: Any) -> StreamsGroupHeartbeatResponse:
        first = {"rebalance_timeout_ms": 60_000, "topology": self.topology(), "process_id": f"p-{member_id}"}
        return self.beat(member_id, 0, **(first | {"client_tags": [], **NOTHING} | fields))

    def error(self, member_id: str, epoch: int, **fields: Any) -> ErrorCode:
        return ErrorCode(self.beat(member_id, epoch, **fields).error_code)

    def describe(self, version: int = 1) -> DescribedStreamsGroup:
        [described] = self.ask(StreamsGroupDescribeRequest([self.id]), version).groups
        return described  # type: ignore[no-any-return]

    def settle(self, *member_ids: str) -> dict[str, dict[str, set[int]]]:
        """Let members follow their assignments until the group is stable; return their active tasks."""
        tasks: dict[str, dict[str, list[StreamsTaskIds]]] = {name: dict(NOTHING) for name in member_ids}

        def is_stable() -> bool:
            epochs = {member.member_id: member.member_epoch for member in self.describe().members}
            for name in member_ids:
                answer = self.beat(name, epochs[name], **tasks[name])
                assert answer.error_code == 0, answer.error_message
                if answer.active_tasks is not None:
                    tasks[name] = {role: getattr(answer, role) for role in NOTHING}
            return self.describe().group_state == "Stable"

        wait_until(is_stable, 60, lambda: self.describe())
        return {
            name: {task.subtopology_id: set(task.partitions) for task in some["active_tasks"]}
            for name, some in tasks.items()
        }

    def commit(self, member_id: str, epoch: int) -> ErrorCode:
        partitions = [OffsetCommitRequestPartition(0, 5)]
        topics = [OffsetCommitRequestTopic(self.topic, partitions=partitions)]
        answer = self.ask(OffsetCommitRequest(self.id, epoch, member_id, topics=topics), 9)
        return ErrorCode(answer.topics[0].partitions[0].error_code)

    def delete(self) -> ErrorCode:
        [result] = self.ask(DeleteGroupsRequest([self.id]), 2).results
        return ErrorCode(result.error_code)

    def state(self) -> set[str]:
        """Return the states in which ListGroups finds the group."""
        return {
            state
            for state in ("Empty", "stable", "Dead")
            for group in self.ask(ListGroupsRequest([state], ["STREAMS"]), 5).groups
            if (group.group_id, group.group_type, group.protocol_type) == (self.id, "streams", "streams")
        }


def streams_group(ask: Ask, bootstrap: str, group_id: str, topic: str) -> StreamsMembers:
    """Return a group without members, which is assigned at once."""
    group = StreamsMembers(ask, group_id, topic)
    create_topic(bootstrap, group.topic, 3)
    ask(FindCoordinatorRequest(coordinator_keys=[group.id]), 4)
    names = ("streams.assignment.interval.ms", "streams.initial.rebalance.delay.ms")
    quick = [AlterableConfig(name, value="0") for name in names]
    altered = ask(IncrementalAlterConfigsRequest([AlterConfigsResource(GROUP_RESOURCE, group.id, quick)]), 1)
    assert [result.error_code for result in altered.responses] == [0]
    wait_until(lambda: group.error("nobody", 1) not in NOT_READY)
    return group


def joined(group: StreamsMembers, *member_ids: str) -> dict[str, dict[str, set[int]]]:
    for member_id in member_ids:
        answer = group.join(member_id)
        assert answer.error_code == 0, answer.error_message
    return group.settle(*member_ids)
