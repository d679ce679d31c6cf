"""Configuration of a topology by the cluster's topics: numbers of tasks, and internal topics to be created.

    source topics            exist; members read them
    repartition topics       internal: one subtopology writes them, another reads them
    changelog topics         internal: the states of a subtopology's tasks

Numbers of partitions follow from each other:

    repartition topic        as the topology says, else the most partitions that its writers read
    copartitioned topics     all alike: repartition topics take the number of the sources with which they are joined
    tasks of a subtopology   the most partitions of a topic that it reads
    changelog topic          one for each task

Without one of these the topology is not ready, and members have no tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import attrs

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.groups.streams.states import StatusCode
from pylogbroker.wire.streams_topology import StreamsCopartitionGroup, StreamsSubtopology, StreamsTopicInfo

CountPartitions = Callable[[str], int | None]
"""Returns the number of partitions of a topic; None if it does not exist."""

_TEXT_BYTES_MAX: Final = 512 * 1024
"""Most bytes of names and settings of a topology, which has to fit in a record."""
_PARTITIONS_MAX: Final = 100_000
_NAMES_SHOWN: Final = 10


@attrs.frozen
class GroupTopology:
    """Subtopologies are sorted by id."""

    epoch: int
    subtopologies: tuple[StreamsSubtopology, ...]

    @classmethod
    def of(cls, epoch: int, subtopologies: Iterable[StreamsSubtopology]) -> GroupTopology:
        return cls(epoch, tuple(sorted(subtopologies, key=lambda subtopology: subtopology.subtopology_id)))

    def topics(self) -> set[str]:
        """Return the names of all topics, which need not exist."""
        return {topic for subtopology in self.subtopologies for topic in _topics_of(subtopology)}

    def read_topics(self) -> set[str]:
        return {topic for subtopology in self.subtopologies for topic in sources_of(subtopology)}


@attrs.frozen
class TopicToCreate:
    """An internal topic that is missing. Without a replication factor it gets the broker's default."""

    name: str
    partitions: int
    replication_factor: int
    settings: Mapping[str, str]


@attrs.frozen
class ConfiguredTopology:
    """`tasks` has the number of tasks of each subtopology; none unless the topology is ready.

    `counts` has the numbers of partitions of internal topics, as far as they could be decided.
    """

    problem: StatusCode | None = None
    detail: str = ""
    tasks: Mapping[str, int] = attrs.field(factory=dict)
    counts: Mapping[str, int] = attrs.field(factory=dict)
    missing: tuple[TopicToCreate, ...] = ()

    @property
    def is_ready(self) -> bool:
        return self.problem is None


NO_TOPOLOGY: Final = GroupTopology(-1, ())
NOT_CONFIGURED: Final = ConfiguredTopology(StatusCode.MISSING_SOURCE_TOPICS, "the topology has not been checked yet")


class _NotConfigured(Exception):
    def __init__(self, problem: StatusCode, detail: str) -> None:
        super().__init__(detail)
        self.problem = problem
        self.detail = detail


def sources_of(subtopology: StreamsSubtopology) -> Iterator[str]:
    """Yield the topics that a subtopology reads."""
    yield from subtopology.source_topics
    yield from (info.name for info in subtopology.repartition_source_topics)


def _topics_of(subtopology: StreamsSubtopology) -> Iterator[str]:
    yield from sources_of(subtopology)
    yield from subtopology.repartition_sink_topics
    yield from (info.name for info in subtopology.state_changelog_topics)


def check_topology(topology: GroupTopology) -> None:
    """Raise KafkaError for a topology that is invalid by itself."""
    if any(subtopology.source_topic_regex for subtopology in topology.subtopologies):
        raise KafkaError("Regular expressions for source topics are not supported yet.", ErrorCode.INVALID_REQUEST)
    ids = [subtopology.subtopology_id for subtopology in topology.subtopologies]
    if len(set(ids)) < len(ids):
        raise _invalid("two subtopologies have the same id")
    if sum(map(_text_size, topology.subtopologies)) > _TEXT_BYTES_MAX:
        raise _invalid(f"its names and settings have more than {_TEXT_BYTES_MAX} bytes")
    for subtopology in topology.subtopologies:
        _check_subtopology(subtopology)


def _check_subtopology(subtopology: StreamsSubtopology) -> None:
    name = subtopology.subtopology_id
    if not any(sources_of(subtopology)):
        raise _invalid(f"subtopology {name!r} reads no topic")
    for info in subtopology.state_changelog_topics:
        if info.partitions != 0:
            raise _invalid(
                f"Changelog topic {info.name} must have an undefined partition count, but it is set to"
                f" {info.partitions}."
            )
    for info in subtopology.repartition_source_topics:
        if not 0 <= info.partitions <= _PARTITIONS_MAX:
            raise _invalid(f"repartition topic {info.name} is to have {info.partitions} partitions")
    for group in subtopology.copartition_groups:
        places = (
            (group.source_topics, len(subtopology.source_topics)),
            (group.repartition_source_topics, len(subtopology.repartition_source_topics)),
        )
        if any(not 0 <= place < count for some, count in places for place in some):
            raise _invalid(f"a copartition group of subtopology {name!r} has the place of a source that does not exist")


def _text_size(subtopology: StreamsSubtopology) -> int:
    infos = (*subtopology.state_changelog_topics, *subtopology.repartition_source_topics)
    settings = (
        len(config.key.encode()) + len(config.value.encode()) for info in infos for config in info.topic_configs
    )
    places = sum(len(group.source_topics) + len(group.repartition_source_topics) + 4 for group in _groups(subtopology))
    return len(subtopology.subtopology_id) + sum(map(len, _topics_of(subtopology))) + sum(settings) + 2 * places


def _groups(subtopology: StreamsSubtopology) -> list[StreamsCopartitionGroup]:
    return subtopology.copartition_groups


def _invalid(why: str) -> KafkaError:
    return KafkaError(f"the topology is invalid: {why}", ErrorCode.STREAMS_INVALID_TOPOLOGY)


def configure(topology: GroupTopology, count_partitions: CountPartitions) -> ConfiguredTopology:
    """Return what a valid topology needs of the topics that there are."""
    decided: dict[str, int] = {}

    def count(topic: str) -> int | None:
        return decided.get(topic) if (existing := count_partitions(topic)) is None else existing

    try:
        _check_sources(topology, count_partitions)
        _decide_repartition_topics(topology, decided, count)
        for subtopology in topology.subtopologies:
            for group in subtopology.copartition_groups:
                _copartition(subtopology, group, decided, count)
        tasks = {
            subtopology.subtopology_id: _most(map(count, sources_of(subtopology)))
            for subtopology in topology.subtopologies
        }
        for subtopology in topology.subtopologies:
            for info in subtopology.state_changelog_topics:
                decided[info.name] = tasks[subtopology.subtopology_id]
        missing = tuple(_missing(topology, decided, count_partitions))
    except _NotConfigured as problem:
        return ConfiguredTopology(problem.problem, problem.detail)
    if missing:
        detail = f"Internal topics are missing: {_shown(topic.name for topic in missing)}"
        return ConfiguredTopology(StatusCode.MISSING_INTERNAL_TOPICS, detail, {}, decided, missing)
    return ConfiguredTopology(None, "", tasks, decided)


def _check_sources(topology: GroupTopology, count_partitions: CountPartitions) -> None:
    missing = {
        topic
        for subtopology in topology.subtopologies
        for topic in subtopology.source_topics
        if count_partitions(topic) is None
    }
    if missing:
        raise _NotConfigured(StatusCode.MISSING_SOURCE_TOPICS, f"Source topics {_shown(missing)} are missing.")


def _decide_repartition_topics(topology: GroupTopology, decided: dict[str, int], count: CountPartitions) -> None:
    """Decide the numbers of partitions, those of writers before those of readers."""
    open_topics: dict[str, None] = {}
    for subtopology in topology.subtopologies:
        for info in subtopology.repartition_source_topics:
            if info.partitions:
                decided[info.name] = info.partitions
            else:
                open_topics[info.name] = None
    writers: dict[str, list[StreamsSubtopology]] = {}
    for subtopology in topology.subtopologies:
        for topic in subtopology.repartition_sink_topics:
            writers.setdefault(topic, []).append(subtopology)
    while open_topics:
        solved = {}
        for topic in open_topics:
            read = {source for writer in writers.get(topic, ()) for source in sources_of(writer)} - {topic}
            if read and not any(source in open_topics for source in read):
                solved[topic] = _most(map(count, read))
        if not solved:
            raise _incorrect(
                f"Failed to compute number of partitions for the repartition topics {_shown(open_topics)}: no"
                " subtopology writes them, or they are written from each other"
            )
        for topic, number in solved.items():
            decided[topic] = number
            del open_topics[topic]


def _copartition(
    subtopology: StreamsSubtopology, group: StreamsCopartitionGroup, decided: dict[str, int], count: CountPartitions
) -> None:
    """Give repartition topics that are joined with others the same number of partitions."""
    sources = [subtopology.source_topics[place] for place in group.source_topics]
    infos = [subtopology.repartition_source_topics[place] for place in group.repartition_source_topics]
    fixed = {info.name: info.partitions for info in infos if info.partitions}
    numbers = {topic: count(topic) or 0 for topic in sources} or fixed
    if len(set(numbers.values())) > 1:
        shown = ", ".join(f"{topic}={number}" for topic, number in sorted(numbers.items()))
        raise _incorrect(f"Following topics do not have the same number of partitions: [{shown}]")
    if not infos:
        return
    number = next(iter(numbers.values())) if numbers else max(decided[info.name] for info in infos)
    for topic, partitions in fixed.items():
        if partitions != number:
            raise _incorrect(
                f"Number of partitions [{partitions}] of repartition topic [{topic}] doesn't match number of partitions"
                f" [{number}] of the source topic."
            )
    for info in infos:
        decided[info.name] = number


def _missing(
    topology: GroupTopology, decided: Mapping[str, int], count_partitions: CountPartitions
) -> Iterator[TopicToCreate]:
    """Yield the internal topics that do not exist; raise if one exists with another number of partitions."""
    infos: dict[str, StreamsTopicInfo] = {}
    for subtopology in topology.subtopologies:
        for info in (*subtopology.repartition_source_topics, *subtopology.state_changelog_topics):
            infos[info.name] = info
    for name in sorted(infos):
        info, expected, existing = infos[name], decided[name], count_partitions(name)
        if existing is None:
            settings = {config.key: config.value for config in info.topic_configs}
            yield TopicToCreate(name, expected, info.replication_factor, settings)
        elif existing != expected:
            raise _incorrect(
                f"Existing topic {name} has different number of partitions: expected {expected}, found {existing}"
            )


def _most(counts: Iterable[int | None]) -> int:
    return max(number or 0 for number in counts)


def _incorrect(detail: str) -> _NotConfigured:
    return _NotConfigured(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, detail)


def _shown(topics: Iterable[str]) -> str:
    names = sorted(topics)
    rest = len(names) - _NAMES_SHOWN
    return ", ".join(names[:_NAMES_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
