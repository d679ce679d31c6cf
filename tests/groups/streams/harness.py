"""Harness of a coordinator with groups of Kafka Streams: topics that a test creates, and heartbeats."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar
from uuid import UUID

import attrs

from pylogbroker.groups import GroupSettings
from pylogbroker.groups.consumer.port import TopicShape
from pylogbroker.groups.streams.configuration import GroupTopology, TopicToCreate
from pylogbroker.groups.streams.group import StreamsGroup
from pylogbroker.groups.streams.port import StreamsSettings
from pylogbroker.groups.streams.requests import StreamsGroupDescription, StreamsHeartbeat, StreamsHeartbeatResult
from pylogbroker.groups.streams.tasks import NO_TASKS, Tasks
from pylogbroker.long_loops import at_once
from pylogbroker.records import entries
from pylogbroker.wire.streams_topology import StreamsCopartitionGroup, StreamsSubtopology, StreamsTopicInfo
from tests.coordinators.harness import Answer
from tests.groups.harness import SETTINGS, Harness

T = TypeVar("T")
GROUP = "g"
REBALANCE = 60_000
QUICK = StreamsSettings(assignment_interval_ms=0, initial_rebalance_delay_ms=0)

WORD_COUNT = (
    StreamsSubtopology("0", ["words"], repartition_sink_topics=["g-by-word-repartition"]),
    StreamsSubtopology(
        "1",
        state_changelog_topics=[StreamsTopicInfo("g-counts-changelog")],
        repartition_source_topics=[StreamsTopicInfo("g-by-word-repartition")],
        copartition_groups=[StreamsCopartitionGroup(repartition_source_topics=[0])],
    ),
)
"""One subtopology writes words to a repartition topic, the other counts them."""
COUNTING = (StreamsSubtopology("0", ["words"], state_changelog_topics=[StreamsTopicInfo("g-counts-changelog")]),)
"""One subtopology with a state."""


def topology(subtopologies: Iterable[StreamsSubtopology] = COUNTING, epoch: int = 0) -> GroupTopology:
    return GroupTopology.of(epoch, subtopologies)


class FakeStreamsPort:
    """Topics by name. Internal topics are created at once, or when a test lets it be done."""

    def __init__(self, settings: StreamsSettings = QUICK) -> None:
        self.topics: dict[str, TopicShape] = {}
        self.settings = settings
        self.removed: list[str] = []
        self.rejected_assignments: list[str] = []
        self.failure = ""
        self.held: list[Callable[[], None]] | None = None
        self.clock: Callable[[], int] = lambda: 0
        self._created = 0

    def create(self, name: str, partitions: int) -> None:
        self._created += 1
        self.topics[name] = TopicShape(UUID(int=self._created), partitions)

    def topic(self, name: str) -> TopicShape | None:
        return self.topics.get(name)

    def settings_of(self, group_id: str) -> StreamsSettings:
        return self.settings

    def compute(self, work: Callable[[], T], size: int, done: Callable[[T | Exception, int], None]) -> None:
        def run() -> None:
            done(work(), self.clock())

        if self.held is None:
            run()
        else:
            self.held.append(run)

    def create_topics(self, group_id: str, topics: Iterable[TopicToCreate]) -> None:
        for topic in topics:
            self.create(topic.name, topic.partitions)

    def creation_failure(self, group_id: str) -> str:
        return self.failure

    def member_removed(self, group_id: str, member_id: str, why: str) -> None:
        self.removed.append(member_id)

    def assignment_rejected(self, group_id: str, why: str) -> None:
        self.rejected_assignments.append(why)

    def release(self) -> None:
        held, self.held = self.held or [], None
        for run in held:
            run()


class StreamsHarness(Harness):
    """A coordinator with the topic `words` of four partitions."""

    def __init__(
        self,
        settings: GroupSettings = SETTINGS,
        loaded: bool = True,
        ids: Iterator[int] | None = None,
        port: FakeStreamsPort | None = None,
    ) -> None:
        self.streams = FakeStreamsPort() if port is None else port
        self.streams.clock = lambda: self.now
        if port is None:
            self.streams.create("words", 4)
            self.streams.create("g-counts-changelog", 4)
        super().__init__(settings, loaded, ids, streams_port=self.streams)

    def restarted(self, settings: GroupSettings | None = None) -> StreamsHarness:
        other = StreamsHarness(settings or self.coordinator.settings, loaded=False, ids=self.ids, port=self.streams)
        other.now = self.now
        other.log_port.logs, other.log_port.batches = self.log_port.logs, self.log_port.batches
        for partition in range(self.coordinator.settings.partitions):
            other.load(partition, entries(b"".join(self.log_port.batches[partition])))
        return other

    def send(self, member_id: str, epoch: int, **fields: Any) -> Answer[StreamsHeartbeatResult]:
        answer: Answer[StreamsHeartbeatResult] = Answer()
        beat = StreamsHeartbeat(fields.pop("group_id", GROUP), member_id, epoch, **fields)
        self.coordinator.streams.heartbeat(beat, answer, self.now)
        return answer

    def joining(self, member_id: str, process: str | None = None, **fields: Any) -> Answer[StreamsHeartbeatResult]:
        given = {
            "rebalance_timeout_ms": REBALANCE,
            "topology": topology(),
            "owned": NO_TASKS,
            "process_id": process or f"process of {member_id}",
            "client_tags": {},
            **fields,
        }
        return self.send(member_id, 0, **given)

    def joined(self, member_id: str, process: str | None = None, **fields: Any) -> StreamsHeartbeatResult:
        return self.joining(member_id, process, **fields).value

    def beat(self, member_id: str, owned: Tasks | None = None, **fields: Any) -> StreamsHeartbeatResult:
        """Send a heartbeat at the member's epoch."""
        return self.send(member_id, self.group.members[member_id].epoch, owned=owned, **fields).value

    def topics_changed(self, *names: str) -> None:
        groups = tuple(self.coordinator.groups())
        at_once(self.coordinator.streams.on_topics_changed(names, groups, self.now))

    def describe(self) -> StreamsGroupDescription:
        return self.coordinator.streams.describe(GROUP)

    @property
    def group(self) -> StreamsGroup:
        group = self.runtime.shard_for(GROUP).groups[GROUP]
        assert isinstance(group, StreamsGroup)
        return group

    def change_settings(self, **settings: Any) -> None:
        self.streams.settings = attrs.evolve(self.streams.settings, **settings)
