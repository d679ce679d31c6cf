"""Requests and state of a member, with a coordinator that answers when the test lets it."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from pylogbroker.client.consumer.member_driver import MemberDriver, MemberSettings
from pylogbroker.client.consumer.member_state_machine import MemberState
from pylogbroker.client.plugin_lookup import ASSIGNOR, resolve_plugins
from pylogbroker.interfaces import TopicPartition
from pylogbroker.wire.consumer_protocol import decode_assignment, encode_assignment
from pylogbroker.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from pylogbroker.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


class Harness:
    """A member, its cluster and its reader."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.counts = {"t": 1}
        self.sent: list[tuple[Any, Deferred[Any]]] = []
        self.taken: set[TopicPartition] = set()
        assignors = resolve_plugins(ASSIGNOR, "partition.assignment.strategy", ["range"], {})
        self.member = MemberDriver(self, self.clock, MemberSettings("g"), assignors, self)  # type: ignore[arg-type]
        self.member.start()

    # the cluster

    def forget_coordinator(self, group: str, kind: Any) -> None:
        pass

    async def coordinator(self, group: str, kind: Any) -> int:
        return 1

    def partitions_of(self, topic: str) -> int | None:
        return self.counts.get(topic)

    def send(self, node: int, request: Any, *, timeout: float) -> Deferred[Any]:
        self.sent.append((request, Deferred()))
        return self.sent[-1][1]

    # the reader

    def topics(self) -> frozenset[str]:
        return frozenset({"t"})

    async def revoke(self, partitions: Any, lost: bool) -> None:
        self.taken -= partitions

    def assign(self, partitions: Any) -> None:
        self.taken |= partitions

    def failed(self, error: Exception) -> None:
        raise error

    # what happens

    def last(self, kind: type[Any]) -> Any:
        request = self.sent[-1][0]
        assert isinstance(request, kind)
        return request

    def join(self, generation: int, **more: Any) -> None:
        [metadata] = self.last(JoinGroupRequest).protocols
        members = [JoinGroupResponseMember("me", None, metadata.metadata)]
        answer = JoinGroupResponse(
            generation_id=generation, protocol_name="range", leader="me", member_id="me", members=members, **more
        )
        self.sent[-1][1].callback(answer)

    def sync(self, *part: TopicPartition) -> None:
        self.last(SyncGroupRequest)
        self.sent[-1][1].callback(SyncGroupResponse(assignment=encode_assignment(part)))


def test_a_topic_that_grows_while_the_group_is_busy_is_not_overlooked() -> None:
    harness = Harness()
    harness.join(1)
    [mine] = harness.last(SyncGroupRequest).assignments
    assert decode_assignment(mine.assignment) == (("t", 0),)
    harness.counts = {"t": 2}
    harness.member.topics_changed()
    harness.sync(("t", 0))
    harness.join(2)
    [mine] = harness.last(SyncGroupRequest).assignments
    assert decode_assignment(mine.assignment) == (("t", 0), ("t", 1))


def test_a_leader_that_skips_the_assignment_watches_partition_counts() -> None:
    harness = Harness()
    harness.join(1, skip_assignment=True)
    harness.sync(("t", 0))
    assert harness.member._machine.state is MemberState.STABLE
    harness.counts = {"t": 2}
    harness.member.topics_changed()
    harness.last(JoinGroupRequest)


def test_assigned_partitions_of_unsubscribed_topics_are_ignored() -> None:
    harness = Harness()
    harness.join(1)
    harness.sync(("t", 0), ("u", 0))
    assert harness.taken == {("t", 0)}
    assert harness.member._machine.state is MemberState.STABLE
