"""Partitions of Kafka 0.7 become topics of the message format 0.7.

Positions stay what they were, so the offsets of consumers stay valid.  In Kafka 0.7 each broker numbers a topic's
partitions from 0 on; here those of the lowest broker come first, then those of the next one:

    broker 0: events-0, events-1    broker 1: events-0    ->    events_0, events_1, events_2

A topic is imported whole or not at all:

    1  <topic>_<n>-import/   every partition is copied, with the topic's id and a file `imported`, and synced
    2  <topic>_<n>/          all of them are renamed
    3  the tree              the topic is written, in one transaction: from now on it is there
    4  `imported`            is removed

What a kill leaves of the steps 1 and 2 is removed by the next import; a topic that got to step 3 is not imported again.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence

import attrs

from pylogbroker.broker.topics import Topic
from pylogbroker.coordination import layout, paths
from pylogbroker.coordination.layout import Kafka07Topic
from pylogbroker.interfaces import Create, Operation, SetData
from pylogbroker.offline.kafka07_source import Source, SourcePartition, SourceSegment, examine, find_partitions
from pylogbroker.offline.stopped import OfflineError, StoppedBroker, finish
from pylogbroker.storage import LogDirectory, names
from pylogbroker.storage.files import remove, sync_file
from pylogbroker.storage.layouts import POSITIONED, mark_layout
from pylogbroker.storage.partition_metadata import read_topic_id, write_topic_id

SETTINGS: Mapping[str, str] = {"message.format.version": "0.7", "retention.ms": "-1", "retention.bytes": "-1"}
"""The settings of an imported topic.  Its files keep their age, and the broker's own retention might delete them."""

_BLOCK_BYTES = 1 << 20
Progress = Callable[[SourcePartition, int], object]
Wanted = Callable[[str], bool]


@attrs.frozen
class TopicPlan:
    """What a topic is made of; None stands for a partition that 0.7 never wrote to."""

    name: str
    partitions: tuple[SourcePartition | None, ...]
    origins: Mapping[str, int]  # `<broker>-<partition>` of 0.7, and the number here


def plan_topics(sources: Sequence[Source], wanted: Wanted, progress: Progress) -> list[TopicPlan]:
    """Examine all wanted topics of the sources; `progress` is told of each partition and of its number here.

    OfflineError if something contradicts itself, or if nothing is left.
    """
    _check_sources(sources)
    found: dict[str, dict[Source, dict[int, str]]] = {}
    for source in sorted(sources, key=lambda each: each.broker):
        for (topic, number), path in find_partitions(source).items():
            if wanted(topic):
                found.setdefault(topic, {}).setdefault(source, {})[number] = path
    if not found:
        raise OfflineError("no topic of the sources is one of those that were asked for")
    return [_plan_topic(name, found[name], progress) for name in sorted(found)]


def _check_sources(sources: Sequence[Source]) -> None:
    for number, source in enumerate(sources):
        for other in sources[:number]:
            if other.broker == source.broker:
                raise OfflineError(
                    f"{other.path} and {source.path} are both of broker {source.broker}: "
                    "say which brokers they are of, as in 0=/old/a 1=/old/b (`brokerid` in server.properties)"
                )


def _plan_topic(name: str, found: Mapping[Source, Mapping[int, str]], progress: Progress) -> TopicPlan:
    partitions: list[SourcePartition | None] = []
    origins = {}
    for source, directories in found.items():
        for number in range(max(directories) + 1):
            origins[f"{source.broker}-{number}"] = len(partitions)
            examined = examine(source, name, number, directories[number]) if number in directories else None
            if examined is not None:
                progress(examined, len(partitions))
            partitions.append(examined)
    return TopicPlan(name, tuple(partitions), origins)


def origins_of(broker: StoppedBroker, topic: Topic) -> Mapping[str, int] | None:
    """Which partitions of 0.7 a topic was made of, by `<broker>-<partition>`; None if it was made otherwise."""
    [node] = finish(broker.tree.get_many([paths.kafka07_topic(topic.name)]))
    if node is None:
        return None
    imported = layout.decode_kafka07_topic(node.data)
    return imported.partitions if imported.topic_id == topic.id else None


def add_topic(broker: StoppedBroker, topic: Topic, origins: Mapping[str, int]) -> None:
    """Write a topic, and which partitions of 0.7 it is made of, in one transaction of the tree."""
    data = layout.encode_kafka07_topic(Kafka07Topic(topic.id, origins))
    wanted = (paths.MIGRATION, paths.MIGRATION_KAFKA07, paths.kafka07_topic(topic.name))
    *parents, own = finish(broker.tree.get_many(wanted))
    made: list[Operation] = [Create(path) for path, node in zip(wanted, parents, strict=False) if node is None]
    note = Create(wanted[-1], data) if own is None else SetData(wanted[-1], data)
    finish(broker.catalog.add(topic, *made, note))


class Kafka07Import:
    """Brings planned topics into a stopped broker."""

    def __init__(self, broker: StoppedBroker, settings: Mapping[str, str], *, link: bool = False) -> None:
        self._broker = broker
        self._settings = {**SETTINGS, **settings}
        self._link = link

    def check(self, plans: Iterable[TopicPlan]) -> tuple[list[Topic], list[str]]:
        """Return the topics to be made, and the names of those that were imported before.

        KafkaError or OfflineError if one cannot be made.
        """
        topics, done = [], []
        for plan in plans:
            known = self._broker.catalog.topics.get(plan.name)
            if known is not None and origins_of(self._broker, known) is not None:
                done.append(plan.name)
            elif known is not None:
                raise OfflineError(
                    f"topic {plan.name} is there already: delete it, or leave it out by naming others with --topic"
                )
            else:
                topics.append(self._broker.catalog.plan_topic(plan.name, len(plan.partitions), 1, None, self._settings))
                self._check_places(plan)
        return topics, done

    def run(self, topic: Topic, plan: TopicPlan) -> None:
        """Import a topic."""
        homes = [self._home(partition) for partition in plan.partitions]
        staged = []
        for number, (partition, home) in enumerate(zip(plan.partitions, homes, strict=True)):
            final = f"{home.path}/{names.partition_directory(topic.name, number)}"
            self._stage(partition, final, topic)
            home.logs += 1
            staged.append(final)
        for final in staged:
            os.rename(final + names.IMPORT_DIRECTORY, final)
        for path in {home.path for home in homes}:
            sync_file(path)
        add_topic(self._broker, topic, plan.origins)
        for final in staged:
            remove(f"{final}/{names.IMPORTED}")

    def clean_up(self) -> list[str]:
        """Remove what an import that was killed left; return which directories that were."""
        ids = {topic.id for topic in self._broker.topics().values()}
        gone = []
        for home in self._broker.logs.directories:
            for entry in os.scandir(home.path):
                if not os.path.exists(f"{entry.path}/{names.IMPORTED}"):
                    continue
                if read_topic_id(entry.path) in ids:
                    remove(f"{entry.path}/{names.IMPORTED}")
                else:
                    shutil.rmtree(entry.path)
                    gone.append(entry.path)
        return gone

    def _check_places(self, plan: TopicPlan) -> None:
        for home in self._broker.logs.directories:
            for number in range(len(plan.partitions)):
                path = f"{home.path}/{names.partition_directory(plan.name, number)}"
                if os.path.lexists(path) and not os.path.exists(f"{path}/{names.IMPORTED}"):
                    raise OfflineError(f"{path} is in the way: move it out of {home.path}, and import it from there")

    def _home(self, partition: SourcePartition | None) -> LogDirectory:
        homes: Sequence[LogDirectory] = self._broker.logs.directories
        if self._link and partition is not None:
            device = os.stat(partition.path).st_dev
            homes = [home for home in homes if os.stat(home.path).st_dev == device]
            if not homes:
                raise OfflineError(
                    f"{partition.path} is on another file system than the log directories: files cannot be linked, "
                    "import them without --link"
                )
        return min(homes, key=lambda home: home.logs)

    def _stage(self, partition: SourcePartition | None, final: str, topic: Topic) -> None:
        path = final + names.IMPORT_DIRECTORY
        shutil.rmtree(path, ignore_errors=True)
        os.mkdir(path)
        origin = "" if partition is None else partition.path
        with open(f"{path}/{names.IMPORTED}", "x", encoding="utf-8", errors="surrogateescape") as file:
            file.write(f"{origin}\n")
        mark_layout(path, POSITIONED)
        write_topic_id(path, topic.id)
        segments = () if partition is None else partition.segments
        for segment in segments[:-1]:
            self._bring(segment, path, self._link)
        for segment in segments[-1:]:
            self._bring(segment, path, False)  # it will be appended to
        if not segments:
            open(names.file_of(path, 0, names.ENTRIES), "xb").close()
        for name in (names.PARTITION_METADATA, names.IMPORTED):
            sync_file(f"{path}/{name}")
        sync_file(path)

    def _bring(self, segment: SourceSegment, directory: str, link: bool) -> None:
        target = names.file_of(directory, segment.position, names.ENTRIES)
        if link:
            os.link(segment.path, target)
            return
        with open(segment.path, "rb") as source, open(target, "xb") as copy:
            left = segment.sound
            while left:
                block = source.read(min(left, _BLOCK_BYTES))
                if not block:
                    raise OfflineError(f"{segment.path} became shorter while it was read: is its broker running?")
                copy.write(block)
                left -= len(block)
            copy.flush()
            status = os.fstat(source.fileno())
            os.utime(copy.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))
            os.fsync(copy.fileno())
