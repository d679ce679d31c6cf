"""Harness of a coordinator with share groups: topics that a test creates, states of a share coordinator, requests."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TypeVar
from uuid import UUID

import attrs

from pylogbroker.errors import ErrorCode
from pylogbroker.groups import GroupSettings
from pylogbroker.groups.consumer.partitions import TopicIdPartition
from pylogbroker.groups.consumer.port import GroupTimes, TopicShape
from pylogbroker.groups.share.group import ShareGroup
from pylogbroker.groups.share.port import StatesDone
from pylogbroker.groups.share.requests import ShareHeartbeat, ShareHeartbeatResult, ShareOffsetsResult
from pylogbroker.long_loops import at_once
from pylogbroker.records import entries
from tests.coordinators.harness import Answer
from tests.groups.harness import SETTINGS, Harness

T = TypeVar("T")
SESSION = 45_000
GROUP = "g"


@attrs.frozen
class KeptState:
    epoch: int
    start: int


class FakeSharePort:
    """Topics by name, and states as a share coordinator keeps them. Calls end at once, or when a test releases them."""

    def __init__(self, assignment_interval_ms: int = 0) -> None:
        self.topics: dict[str, TopicShape] = {}
        self.states: dict[str, dict[TopicIdPartition, KeptState]] = {}
        self.removed: list[str] = []
        self.failures: list[ErrorCode] = []
        self.rejected_assignments: list[str] = []
        self.errors: dict[TopicIdPartition, ErrorCode] = {}  # of calls about these partitions
        self.times = GroupTimes(SESSION, 5_000, assignment_interval_ms)
        self.held: list[Callable[[], None]] | None = None
        self.clock: Callable[[], int] = lambda: 0
        self._created = 0

    def create(self, name: str, partitions: int) -> UUID:
        self._created += 1
        topic_id = UUID(int=self._created)
        self.topics[name] = TopicShape(topic_id, partitions)
        return topic_id

    def extend(self, name: str, partitions: int) -> None:
        self.topics[name] = TopicShape(self.topics[name].topic_id, partitions)

    def id(self, name: str) -> UUID:
        return self.topics[name].topic_id

    def partitions(self, *names: str) -> set[TopicIdPartition]:
        return {(self.id(name), number) for name in names for number in range(self.topics[name].partitions)}

    def topic(self, name: str) -> TopicShape | None:
        return self.topics.get(name)

    def topic_name(self, topic_id: UUID) -> str | None:
        return next((name for name, shape in self.topics.items() if shape.topic_id == topic_id), None)

    def times_of(self, group_id: str) -> GroupTimes:
        return self.times

    def compute(self, work: Callable[[], T], size: int, done: Callable[[T | Exception, int], None]) -> None:
        def run() -> None:
            try:
                outcome: T | Exception = work()
            except Exception as failure:
                outcome = failure
            done(outcome, self.clock())

        self._do(run)

    def initialize(
        self, group_id: str, state_epoch: int, starts: Mapping[TopicIdPartition, int], done: StatesDone
    ) -> None:
        kept = self.states.setdefault(group_id, {})

        def begin(partition: TopicIdPartition, start: int) -> ErrorCode:
            error, former = self.errors.get(partition), kept.get(partition)
            if error is None and former is not None and former.epoch > state_epoch:
                error = ErrorCode.FENCED_STATE_EPOCH
            if error is None and (former is None or former.epoch < state_epoch):
                kept[partition] = KeptState(state_epoch, start)
            return error or ErrorCode.NONE

        self._do(
            lambda: done({partition: begin(partition, start) for partition, start in starts.items()}, self.clock())
        )

    def delete(self, group_id: str, partitions: Collection[TopicIdPartition], done: StatesDone) -> None:
        kept = self.states.setdefault(group_id, {})

        def drop(partition: TopicIdPartition) -> ErrorCode:
            error = self.errors.get(partition, ErrorCode.NONE)
            if not error:
                kept.pop(partition, None)
            return error

        self._do(lambda: done({partition: drop(partition) for partition in partitions}, self.clock()))

    def starts(self, name: str) -> dict[int, int]:
        """Return the start offset of each partition of a topic that has a state."""
        topic_id = self.id(name)
        return {number: kept.start for (of, number), kept in self.states.get(GROUP, {}).items() if of == topic_id}

    def member_removed(self, group_id: str, member_id: str, why: str) -> None:
        self.removed.append(member_id)

    def assignment_rejected(self, group_id: str, why: str) -> None:
        self.rejected_assignments.append(why)

    def states_failed(self, group_id: str, error: ErrorCode) -> None:
        self.failures.append(error)

    def _do(self, run: Callable[[], None]) -> None:
        if self.held is None:
            run()
        else:
            self.held.append(run)

    def hold(self) -> None:
        self.held = []

    def release(self) -> None:
        held, self.held = self.held or [], None
        for run in held:
            run()

    def release_one(self) -> None:
        """Let the first call end that is held."""
        if self.held:
            self.held.pop(0)()


class ShareHarness(Harness):
    """A coordinator with topics; `t` has four partitions."""

    def __init__(
        self,
        settings: GroupSettings = SETTINGS,
        loaded: bool = True,
        ids: Iterator[int] | None = None,
        port: FakeSharePort | None = None,
        assignment_interval_ms: int = 0,
    ) -> None:
        self.share = FakeSharePort(assignment_interval_ms) if port is None else port
        self.share.clock = lambda: self.now
        if port is None:
            self.share.create("t", 4)
        super().__init__(settings, loaded, ids, share_port=self.share)

    def restarted(self, settings: GroupSettings | None = None) -> ShareHarness:
        other = ShareHarness(settings or self.coordinator.settings, loaded=False, ids=self.ids, port=self.share)
        other.now = self.now
        other.log_port.logs, other.log_port.batches = self.log_port.logs, self.log_port.batches
        for partition in range(self.coordinator.settings.partitions):
            other.load(partition, entries(b"".join(self.log_port.batches[partition])))
        return other

    def beat(
        self, member_id: str, epoch: int, topics: Collection[str] | None = None, **fields: str | None
    ) -> Answer[ShareHeartbeatResult]:
        answer: Answer[ShareHeartbeatResult] = Answer()
        subscription = None if topics is None else frozenset(topics)
        given = {"group_id": GROUP, "member_id": member_id, "epoch": epoch, "topics": subscription, **fields}
        self.coordinator.shares.heartbeat(ShareHeartbeat(**given), answer, self.now)  # type: ignore[arg-type]
        return answer

    def join_group(self, member_id: str, *topics: str, **fields: str | None) -> Answer[ShareHeartbeatResult]:
        return self.beat(member_id, 0, topics or ("t",), **fields)

    def next_beat(self, member_id: str) -> ShareHeartbeatResult:
        """Send a heartbeat at the member's epoch."""
        return self.beat(member_id, self.group.members[member_id].epoch).value

    def leave_group(self, member_id: str) -> ErrorCode:
        return self.beat(member_id, -1).value.error

    def set_starts(self, starts: Mapping[TopicIdPartition, int], group: str = GROUP) -> Answer[ShareOffsetsResult]:
        answer: Answer[ShareOffsetsResult] = Answer()
        self.coordinator.shares.set_starts(group, starts, answer, self.now)
        return answer

    def delete_starts(self, *topics: UUID) -> Answer[ShareOffsetsResult]:
        answer: Answer[ShareOffsetsResult] = Answer()
        self.coordinator.shares.delete_starts(GROUP, topics, answer, self.now)
        return answer

    def delete_group(self, group: str = GROUP) -> Answer[ErrorCode]:
        answer: Answer[ErrorCode] = Answer()
        self.coordinator.delete(group, answer, self.now)
        return answer

    def topics_changed(self, *names: str, deleted: Collection[UUID] = ()) -> None:
        groups = tuple(self.coordinator.groups())
        at_once(self.coordinator.shares.on_topics_changed(names, deleted, groups, self.now))

    @property
    def group(self) -> ShareGroup:
        group = self.runtime.shard_for(GROUP).groups[GROUP]
        assert isinstance(group, ShareGroup)
        return group

    def assigned(self) -> dict[str, set[TopicIdPartition]]:
        return {name: set(member.assigned) for name, member in self.group.members.items()}
