"""Import partitions of Kafka 0.7 as topics of the message format 0.7.

Offsets (byte positions) do not change, so consumer offsets stay valid. In Kafka 0.7 each broker numbers a topic's
partitions from 0; here they are numbered in order of broker ids:

    broker 0: events-0, events-1    broker 1: events-0    ->    events_0, events_1, events_2

A topic is imported completely or not at all:

    1  <topic>_<n>-import/   copy every partition, with the topic's id and a file `imported`, and sync it
    2  <topic>_<n>/          rename all of them
    3  the tree              write the topic in one transaction: now it exists
    4  `imported`            remove it

After a kill in step 1 or 2, the next import removes the directories. After step 3, the topic is not imported again.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence

import attrs

from pylogbroker.interfaces import Create, Operation, SetData
from pylogbroker.legacy07.storage.addressing import ADDRESSING
from pylogbroker.legacy07.storage.import_source import Kafka07LogDirectory as Kafka07LogDirectory
from pylogbroker.legacy07.storage.import_source import Kafka07Partition as Kafka07Partition
from pylogbroker.legacy07.storage.import_source import (
    Kafka07Segment,
    examine_partition,
    find_partitions,
)
from pylogbroker.metadata import zk_paths, zk_schema
from pylogbroker.metadata.delta import NewTopic, PlannedTopic
from pylogbroker.metadata.image import TopicImage
from pylogbroker.metadata.zk_schema import Kafka07Topic
from pylogbroker.offline.stopped_broker import OfflineError, StoppedBroker, finish
from pylogbroker.storage import LogDirectory, names
from pylogbroker.storage.files import remove, sync_file
from pylogbroker.storage.log.addressing import write_message_format
from pylogbroker.storage.log.partition_metadata import read_topic_id, write_topic_id

SETTINGS: Mapping[str, str] = {"message.format.version": "0.7", "retention.ms": "-1", "retention.bytes": "-1"}
"""Imported files keep their age: the broker's default retention might delete them."""

_BLOCK_BYTES = 1 << 20
Progress = Callable[[Kafka07Partition, int], object]
Wanted = Callable[[str], bool]
Advance = Callable[[int], object]


@attrs.frozen
class TopicPlan:
    """Sources of a topic's partitions; None where 0.7 never wrote."""

    name: str
    partitions: tuple[Kafka07Partition | None, ...]
    origins: Mapping[str, int]  # new partition by `<broker>-<partition>`


def plan_topics(sources: Sequence[Kafka07LogDirectory], is_selected: Wanted, progress: Progress) -> list[TopicPlan]:
    """Verify wanted topics; `progress` gets each partition and its new number.

    Raise OfflineError if sources contradict each other or nothing is wanted.
    """
    _check_sources(sources)
    by_topic: dict[str, dict[Kafka07LogDirectory, dict[int, str]]] = {}
    for source in sorted(sources, key=lambda directory: directory.broker):
        for (topic, number), path in find_partitions(source).items():
            if is_selected(topic):
                by_topic.setdefault(topic, {}).setdefault(source, {})[number] = path
    if not by_topic:
        raise OfflineError("the sources have none of the topics named by --topic")
    return [_plan_topic(name, by_topic[name], progress) for name in sorted(by_topic)]


def _check_sources(sources: Sequence[Kafka07LogDirectory]) -> None:
    for number, source in enumerate(sources):
        for other in sources[:number]:
            if other.broker == source.broker:
                raise OfflineError(
                    f"{other.path} and {source.path} are both of broker {source.broker}: "
                    "name their brokers, as in 0=/old/a 1=/old/b (`brokerid` in server.properties)"
                )


def _plan_topic(name: str, by_source: Mapping[Kafka07LogDirectory, Mapping[int, str]], progress: Progress) -> TopicPlan:
    partitions: list[Kafka07Partition | None] = []
    origins = {}
    for source, directories in by_source.items():
        for number in range(max(directories) + 1):
            origins[f"{source.broker}-{number}"] = len(partitions)
            examined = examine_partition(source, name, number, directories[number]) if number in directories else None
            if examined is not None:
                progress(examined, len(partitions))
            partitions.append(examined)
    return TopicPlan(name, tuple(partitions), origins)


def origins_of(broker: StoppedBroker, topic: TopicImage) -> Mapping[str, int] | None:
    """Return a topic's partitions by `<broker>-<partition>` of 0.7; None if not imported."""
    [node] = finish(broker.tree.get_many([zk_paths.kafka07_topic(topic.name)]))
    if node is None:
        return None
    imported = zk_schema.decode_kafka07_topic(node.data)
    return imported.partitions if imported.topic_id == topic.id else None


def add_topic(broker: StoppedBroker, planned: PlannedTopic, origins: Mapping[str, int]) -> None:
    """Write a topic and its origins in one transaction."""
    topic = planned.topic
    data = zk_schema.encode_kafka07_topic(Kafka07Topic(topic.id, origins))
    paths = (zk_paths.MIGRATION, zk_paths.MIGRATION_KAFKA07, zk_paths.kafka07_topic(topic.name))
    *parents, own = finish(broker.tree.get_many(paths))
    made: list[Operation] = [Create(path) for path, node in zip(paths, parents, strict=False) if node is None]
    note = Create(paths[-1], data) if own is None else SetData(paths[-1], data)
    finish(broker.controller.create_planned(planned, *made, note))


class Kafka07Import:
    def __init__(self, broker: StoppedBroker, settings: Mapping[str, str], *, link: bool = False) -> None:
        self._broker = broker
        self._settings = {**SETTINGS, **settings}
        self._link = link

    def check(self, plans: Iterable[TopicPlan]) -> tuple[list[PlannedTopic], list[str]]:
        """Return the topics to create, and the names of those already imported.

        Raise KafkaError or OfflineError if a topic cannot be created.
        """
        topics, done = [], []
        for plan in plans:
            topic = self._broker.metadata.topics.get(plan.name)
            if topic is not None and origins_of(self._broker, topic) is not None:
                done.append(plan.name)
            elif topic is not None:
                raise OfflineError(
                    f"topic {plan.name} exists already: delete it, or exclude it by naming other topics with --topic"
                )
            else:
                new_topic = NewTopic(plan.name, len(plan.partitions), 1, settings=self._settings)
                topics.append(self._broker.controller.plans.plan_topic(new_topic))
                self._check_places(plan)
        return topics, done

    def bytes_to_copy(self, plan: TopicPlan) -> int:
        segments = [
            segment for partition in plan.partitions if partition is not None for segment in self._copied(partition)
        ]
        return sum(segment.sound for segment in segments)

    def run(self, planned: PlannedTopic, plan: TopicPlan, advance: Advance | None = None) -> None:
        """Import a topic; `advance` gets the bytes of each block that was copied."""
        topic = planned.topic
        homes = [self._home(partition) for partition in plan.partitions]
        staged = []
        for number, (partition, home) in enumerate(zip(plan.partitions, homes, strict=True)):
            path = f"{home.path}/{names.import_directory(topic.name, number)}"
            self._stage(partition, path, topic, advance)
            home.logs += 1
            staged.append((path, f"{home.path}/{names.partition_directory(topic.name, number)}"))
        for path, final in staged:
            os.rename(path, final)
        for path in {home.path for home in homes}:
            sync_file(path)
        add_topic(self._broker, planned, plan.origins)
        for _, final in staged:
            remove(f"{final}/{names.IMPORTED}")

    def clean_up(self) -> list[str]:
        """Delete and return directories left by a killed import."""
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
                    raise OfflineError(f"{path} exists: move it out of {home.path}, and import it from there")

    def _home(self, partition: Kafka07Partition | None) -> LogDirectory:
        homes = list(self._broker.logs.directories)
        if self._link and partition is not None:
            device = os.stat(partition.path).st_dev
            homes = [home for home in homes if os.stat(home.path).st_dev == device]
            if not homes:
                raise OfflineError(
                    f"{partition.path} is on another file system than the log directories, so files cannot be linked: "
                    "import without --link"
                )
        return min(homes, key=lambda home: home.logs)

    def _copied(self, partition: Kafka07Partition) -> Sequence[Kafka07Segment]:
        """Return those segments that are not linked. The last one never is: records are appended to it later."""
        return partition.segments[-1:] if self._link else partition.segments

    def _stage(self, partition: Kafka07Partition | None, path: str, topic: TopicImage, advance: Advance | None) -> None:
        shutil.rmtree(path, ignore_errors=True)
        os.mkdir(path)
        origin = "" if partition is None else partition.path
        with open(f"{path}/{names.IMPORTED}", "x", encoding="utf-8", errors="surrogateescape") as file:
            file.write(f"{origin}\n")
        write_message_format(path, ADDRESSING)
        write_topic_id(path, topic.id)
        segments: Sequence[Kafka07Segment] = () if partition is None else partition.segments
        copied = () if partition is None else self._copied(partition)
        for segment in segments[: len(segments) - len(copied)]:
            os.link(segment.path, names.file_of(path, segment.position, names.RECORDS))
        for segment in copied:
            _copy(segment, path, advance)
        if not segments:
            open(names.file_of(path, 0, names.RECORDS), "xb").close()
        for name in (names.PARTITION_METADATA, names.IMPORTED):
            sync_file(f"{path}/{name}")
        sync_file(path)


def _copy(segment: Kafka07Segment, directory: str, advance: Advance | None) -> None:
    target = names.file_of(directory, segment.position, names.RECORDS)
    with open(segment.path, "rb") as source, open(target, "xb") as copy:
        left = segment.sound
        while left:
            block = source.read(min(left, _BLOCK_BYTES))
            if not block:
                raise OfflineError(f"{segment.path} became shorter while it was read: stop its broker")
            copy.write(block)
            left -= len(block)
            if advance is not None:
                advance(len(block))
        copy.flush()
        status = os.fstat(source.fileno())
        os.utime(copy.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))
        os.fsync(copy.fileno())
