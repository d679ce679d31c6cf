"""Harness of a coordinator with groups of KIP-848: topics that a test creates, and short requests."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from typing import TypeVar
from uuid import UUID

from pylogbroker.errors import ErrorCode
from pylogbroker.groups import GroupSettings
from pylogbroker.groups.consumer.group import ConsumerGroup
from pylogbroker.groups.consumer.partitions import TopicIdPartition
from pylogbroker.groups.consumer.port import GroupTimes, InvalidExpression, Matches, TopicShape
from pylogbroker.groups.consumer.requests import HeartbeatResult, MaySee, MemberHeartbeat
from pylogbroker.long_loops import at_once
from pylogbroker.records import entries
from tests.coordinators.harness import Answer
from tests.groups.harness import SETTINGS, Harness

T = TypeVar("T")
SESSION = 45_000
REBALANCE = 60_000
GROUP = "g"


class FakePort:
    """Topics by name. Work is done at once, or when a test releases it."""

    def __init__(self, clock: Callable[[], int], assignment_interval_ms: int = 0) -> None:
        self.topics: dict[str, TopicShape] = {}
        self.removed: list[str] = []
        self.rejected_assignments: list[str] = []
        self.topics_version = 0
        self.times = GroupTimes(SESSION, 5_000, assignment_interval_ms)
        self.held: list[Callable[[], None]] | None = None
        self.clock = clock
        self._created = 0

    def create(self, name: str, partitions: int) -> None:
        self._created += 1
        self.topics[name] = TopicShape(UUID(int=self._created), partitions)
        self.topics_version += 1

    def extend(self, name: str, partitions: int) -> None:
        self.topics[name] = TopicShape(self.topics[name].topic_id, partitions)

    def delete(self, name: str) -> None:
        del self.topics[name]
        self.topics_version += 1

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

    def member_removed(self, group_id: str, member_id: str, why: str) -> None:
        self.removed.append(member_id)

    def assignment_rejected(self, group_id: str, why: str) -> None:
        self.rejected_assignments.append(why)

    def resolve(self, expressions: Collection[str], may_see: MaySee, done: Callable[[Matches, int], None]) -> None:
        def run() -> None:
            done({expression: self._matches(expression, may_see) for expression in expressions}, self.clock())

        self._do(run)

    def _matches(self, expression: str, may_see: MaySee) -> frozenset[str] | InvalidExpression:
        try:
            pattern = re.compile(expression)
        except re.error as error:
            return InvalidExpression(str(error))
        return frozenset(name for name in self.topics if pattern.fullmatch(name) and may_see(name))

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

    def partitions(self, *names: str) -> set[TopicIdPartition]:
        return {
            (self.topics[name].topic_id, number) for name in names for number in range(self.topics[name].partitions)
        }


class ConsumerHarness(Harness):
    """A coordinator with topics; `t` has four partitions."""

    def __init__(
        self,
        settings: GroupSettings = SETTINGS,
        loaded: bool = True,
        ids: Iterator[int] | None = None,
        port: FakePort | None = None,
        assignment_interval_ms: int = 0,
    ) -> None:
        self.topics = FakePort(lambda: self.now, assignment_interval_ms) if port is None else port
        self.topics.clock = lambda: self.now
        if port is None:
            self.topics.create("t", 4)
        super().__init__(settings, loaded, ids, self.topics)

    def restarted(self, settings: GroupSettings | None = None) -> ConsumerHarness:
        other = ConsumerHarness(settings or self.coordinator.settings, loaded=False, ids=self.ids, port=self.topics)
        other.now = self.now
        other.log_port.logs, other.log_port.batches = self.log_port.logs, self.log_port.batches
        for partition in range(self.coordinator.settings.partitions):
            other.load(partition, entries(b"".join(self.log_port.batches[partition])))
        return other

    def beat(self, member_id: str, epoch: int, **fields: object) -> Answer[HeartbeatResult]:
        answer: Answer[HeartbeatResult] = Answer()
        heartbeat = MemberHeartbeat(**{"group_id": GROUP, "member_id": member_id, "epoch": epoch, **fields})  # type: ignore[arg-type]
        self.coordinator.consumers.heartbeat(heartbeat, answer, self.now)
        return answer

    def join_group(self, member_id: str, *topics: str, **fields: object) -> Answer[HeartbeatResult]:
        subscription = {} if "expression" in fields else {"topics": frozenset(topics or ("t",))}
        first = {"rebalance_timeout_ms": REBALANCE, "owned": frozenset(), **subscription}
        return self.beat(member_id, 0, **{**first, **fields})

    def leave_group(self, member_id: str, **fields: object) -> ErrorCode:
        return self.beat(member_id, -1, **fields).value.error

    def topics_changed(self, *names: str) -> None:
        groups = tuple(self.coordinator.groups())
        at_once(self.coordinator.consumers.on_topics_changed(names, groups, self.now))

    @property
    def group(self) -> ConsumerGroup:
        group = self.runtime.shard_for(GROUP).groups[GROUP]
        assert isinstance(group, ConsumerGroup)
        return group

    def epoch(self, member_id: str) -> int:
        return self.group.members[member_id].epoch

    def state_of_group(self) -> str:
        return self.coordinator.consumers.describe(GROUP).state
