"""Import a registry: topics, and offsets into `__consumer_offsets`.

Existing topics do not change. An offset must lie within its log: beyond the end, consumers would skip later records.
Offsets already committed here are kept unless replaced.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

import attrs

from pylogbroker.broker.coordinators.group_service import offsets_topic_settings
from pylogbroker.coordinators import PartitionReplay, TopicPartition
from pylogbroker.errors import ConfigError
from pylogbroker.groups import CommittedOffset, ReplayedGroups
from pylogbroker.groups.record_schema import encode_offset_key, encode_offset_value
from pylogbroker.metadata.delta import NewTopic
from pylogbroker.metadata.image import TopicImage
from pylogbroker.metadata.topic_names import OFFSETS_TOPIC
from pylogbroker.offline import kafka07_import
from pylogbroker.offline.registry import RegisteredOffset, RegisteredTopic
from pylogbroker.offline.stopped_broker import StoppedBroker, finish
from pylogbroker.partition_hash import partition_for
from pylogbroker.records import Record, build, entries
from pylogbroker.storage import Log, Origin

_RECORDS_PER_BATCH = 1000
_REPLAYED_BYTES = 1 << 20
_BEGINNING = -1
ReportLine = Callable[[str], object]


class OffsetBounds(Protocol):
    """A log, or what is known of it."""

    @property
    def log_start_offset(self) -> int: ...
    @property
    def log_end_offset(self) -> int: ...


Committed = Mapping[str, Mapping[TopicPartition, CommittedOffset]]


@attrs.define
class RegistryImport:
    """Import into a stopped broker; `report` gets a line about each topic and offset."""

    _broker: StoppedBroker
    _report: ReportLine
    _origins: dict[str, Mapping[str, int] | None] = attrs.field(factory=dict, init=False)

    def make_topics(self, registered: Iterable[RegisteredTopic]) -> list[TopicImage]:
        return [topic for registered_topic in registered if (topic := self._make_topic(registered_topic)) is not None]

    def _make_topic(self, registered: RegisteredTopic) -> TopicImage | None:
        controller, name = self._broker.controller, registered.name
        topic = self._broker.metadata.topics.get(name)
        if topic is not None:
            has = f"it exists, with {len(topic.partitions)} partition(s)"
            fewer = "" if len(topic.partitions) >= registered.partitions else f", and had {registered.partitions}"
            self._report(f"skipped {name}: {has}{fewer}")
            return None
        settings = kafka07_import.SETTINGS if registered.origins else self._accepted(registered)
        planned = controller.plans.plan_topic(NewTopic(name, registered.partitions, 1, settings=settings))
        if registered.origins:
            kafka07_import.add_topic(self._broker, planned, registered.origins)
        else:
            finish(controller.create_planned(planned))
        self._report(f"created {name}, {registered.partitions} partition(s), empty")
        return planned.topic

    def _accepted(self, registered: RegisteredTopic) -> dict[str, str]:
        accepted: dict[str, str] = {}
        for name, text in registered.overrides.items():
            try:
                self._broker.config.check_topic({**accepted, name: text})
            except ConfigError as error:
                self._report(f"topic {registered.name}: a setting is not imported: {error}")
            else:
                accepted[name] = text
        return accepted

    def commit(
        self, offsets: Iterable[RegisteredOffset], logs: Mapping[TopicPartition, OffsetBounds], *, replace: bool
    ) -> None:
        """Commit to the broker's open logs; `replace` overwrites existing offsets.

        `logs` may be only the bounds of logs that are not open.
        """
        by_group: dict[str, dict[TopicPartition, int]] = {}
        left_out: Counter[tuple[str, str]] = Counter()
        for offset in offsets:
            try:
                key = self._place(offset, logs)
            except _Skipped as problem:
                left_out[offset.group, str(problem)] += 1
            else:
                by_group.setdefault(offset.group, {})[key] = offset.offset
        if by_group:
            self._commit_groups(by_group, self._offsets_topic(), replace, left_out)
        for (group, why), count in sorted(left_out.items()):
            self._report(f"group {group}: skipped {count} offset(s): {why}")

    def _place(self, offset: RegisteredOffset, logs: Mapping[TopicPartition, OffsetBounds]) -> TopicPartition:
        topic = self._broker.metadata.topics.get(offset.topic)
        if topic is None:
            raise _Skipped(f"there is no topic {offset.topic}")
        key = offset.topic, self._index(offset.place, topic)
        log = logs.get(key)
        if log is None:
            raise _Skipped(f"{offset.topic} has no partition {offset.place}")
        if not log.log_start_offset <= offset.offset <= log.log_end_offset:
            raise _Skipped(
                f"{offset.topic}-{key[1]} holds {log.log_start_offset} to {log.log_end_offset}, "
                f"not {offset.offset}: consumers will use auto.offset.reset"
            )
        return key

    def _index(self, place: str, topic: TopicImage) -> int:
        broker, _, number = place.rpartition("-")
        if topic.name not in self._origins:
            self._origins[topic.name] = kafka07_import.origins_of(self._broker, topic)
        origins = self._origins[topic.name]
        if not broker:
            return int(number) if origins is None else _BEGINNING
        if origins is None:
            return _BEGINNING
        only = {origin.partition("-")[0] for origin in origins}
        if place not in origins and len(only) == 1:
            raise _Skipped(
                f"{topic.name} was imported as of broker {only.pop()}, the offset is of broker {broker}: "
                f"import its logs as {broker}=DIRECTORY"
            )
        return origins.get(place, _BEGINNING)

    def _offsets_topic(self) -> TopicImage:
        config = self._broker.config
        existing = self._broker.metadata.topics.get(OFFSETS_TOPIC)
        if existing is not None:
            return existing
        count = config.offsets_topic_num_partitions
        settings = offsets_topic_settings(config)
        topic = finish(self._broker.controller.create_topic(NewTopic(OFFSETS_TOPIC, count, 1, settings=settings)))
        self._broker.make_logs(topic)
        return topic

    def _commit_groups(
        self,
        by_group: Mapping[str, Mapping[TopicPartition, int]],
        topic: TopicImage,
        replace: bool,
        left_out: Counter[tuple[str, str]],
    ) -> None:
        counts: dict[str, int] = {}
        by_index: dict[int, list[str]] = {}
        for group in by_group:
            by_index.setdefault(partition_for(group, len(topic.partitions)), []).append(group)
        for index, groups in by_index.items():
            log = self._broker.logs.logs[OFFSETS_TOPIC, index]
            committed = _committed(log, index)
            records = []
            for group in groups:
                made = self._records(group, by_group[group], {} if replace else committed.get(group, {}), left_out)
                counts[group] = len(made)
                records += made
            self._append(log, records, topic.partitions[index].leader_epoch)
        for group, count in sorted(counts.items()):
            self._report(f"group {group}: committed {count} offset(s)")

    def _records(
        self,
        group: str,
        offsets: Mapping[TopicPartition, int],
        committed: Mapping[TopicPartition, CommittedOffset],
        left_out: Counter[tuple[str, str]],
    ) -> list[Record]:
        now_ms = self._broker.now_ms()
        records = []
        for (topic, index), offset in offsets.items():
            if (topic, index) in committed:
                if committed[topic, index].offset != offset:
                    left_out[group, f"others are committed for {topic} here already: --replace overwrites them"] += 1
                continue
            value = encode_offset_value(CommittedOffset(offset, committed=now_ms))
            records.append(Record(0, now_ms, encode_offset_key(group, topic, index), value))
        return records

    def _append(self, log: Log, records: list[Record], epoch: int) -> None:
        for first in range(0, len(records), _RECORDS_PER_BATCH):
            some = [
                attrs.evolve(record, offset=number)
                for number, record in enumerate(records[first : first + _RECORDS_PER_BATCH])
            ]
            log.append(build(some), self._broker.now_ms(), epoch, Origin.COORDINATOR)


class _Skipped(Exception):
    """Reason why an offset cannot be committed."""


def _committed(log: Log, index: int) -> Committed:
    replay = PartitionReplay(index, 0, ReplayedGroups())
    offset = log.log_start_offset
    while (region := log.read(offset, _REPLAYED_BYTES, upto=log.log_end_offset)) is not None:
        log_entries = list(entries(region.read()))
        replay.replay(log_entries)
        offset = log_entries[-1].next_offset
    return replay.state.committed()
