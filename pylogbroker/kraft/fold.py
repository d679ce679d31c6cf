"""Committed metadata records to changes of the cluster's image.

    records                                            changes
    -------------------------------------------------  ------------------------------------------------------------
    Topic, Partition                                   TopicCreated, once the batch ends
    Partition, PartitionChange of a known topic        PartitionsChanged
    RemoveTopic                                        TopicDeleted, which removes the topic's settings too
    Config of a topic, broker or group                 ConfigChanged with all settings of the resource
    RegisterBroker, BrokerRegistrationChange, Fence-   BrokerRegistered while the broker is unfenced, else
    and UnfenceBroker, UnregisterBroker                BrokerUnregistered: a fenced broker serves nobody

What a batch does to one topic or resource is one change. A partition's leader epoch grows with each record that names
a leader, the partition epoch with each record. Source: Kafka's classes MetadataDelta and PartitionRegistration.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Final
from uuid import UUID

import attrs

from pylogbroker.errors import CorruptRecords
from pylogbroker.long_loops import give_way, over
from pylogbroker.metadata.delta import (
    BrokerRegistered,
    BrokerUnregistered,
    Change,
    ConfigChanged,
    PartitionsChanged,
    TopicCreated,
    TopicDeleted,
    portions,
)
from pylogbroker.metadata.image import (
    BrokerListener,
    BrokerRegistration,
    ClusterImage,
    ConfigResource,
    LeaderRecovery,
    PartitionState,
    TopicImage,
    broker_resource,
    client_metrics_resource,
    group_resource,
    topic_resource,
)
from pylogbroker.metadata.persistent_map import PersistentMap
from pylogbroker.wire.metadata_records import (
    UNCHANGED_LEADER,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FenceBrokerRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from pylogbroker.wire.resource_types import ResourceType

PROTOCOLS: Final[Mapping[int, str]] = {0: "PLAINTEXT", 1: "SSL", 2: "SASL_PLAINTEXT", 3: "SASL_SSL"}
_FENCED, _UNFENCED = 1, -1
_BROKER_LISTS_MAX: Final = 50_000


@attrs.frozen
class RegisteredBroker:
    """A broker that the controllers know, fenced or not."""

    registration: BrokerRegistration
    incarnation: UUID
    is_fenced: bool


@attrs.define
class _TopicEdit:
    """A topic in a batch of records; `is_new` if the batch has created it."""

    name: str
    id: UUID
    is_new: bool
    partitions: dict[int, PartitionState] = attrs.field(factory=dict)


@attrs.define(eq=False, repr=False)
class MetadataFold:
    """`image` is the cluster's as of the last record, `brokers` has all registered ones, `broker_id` is this one's.

    `directories` has the log directory of each replica of this broker by topic id and partition.
    """

    _broker_id: int
    image: ClusterImage = attrs.field(factory=ClusterImage)
    brokers: dict[int, RegisteredBroker] = attrs.field(factory=dict, init=False)
    directories: dict[tuple[UUID, int], UUID] = attrs.field(factory=dict, init=False)
    _broker_lists: dict[tuple[int, ...], tuple[int, ...]] = attrs.field(factory=dict, init=False)
    """Replicas and ISRs: most partitions have those of others, and share them."""

    def brokers_of(self, numbers: Iterable[int]) -> tuple[int, ...]:
        """Return the brokers of a list; equal lists are one object."""
        if len(self._broker_lists) >= _BROKER_LISTS_MAX:
            self._broker_lists.clear()
        brokers = tuple(numbers)
        return self._broker_lists.setdefault(brokers, brokers)

    def begin(self) -> RecordEdits:
        """Return an empty batch of records that belong together."""
        return RecordEdits(self)

    async def commit(self, batch: RecordEdits) -> list[Change]:
        """Return what a batch changes; `image` has it from now on."""
        changes: list[Change] = []
        for delta in portions(batch.changes()):
            self.image = delta.apply(self.image)
            changes += delta
            await give_way()
        return changes

    async def follow_on(self, before: ClusterImage) -> list[Change]:
        """Return the changes from an earlier image to this one, which then shares with it what has not changed."""
        changes = await difference(before, self.image)
        self.image = before
        for delta in portions(changes):
            self.image = delta.apply(self.image)
            await give_way()
        return changes


@attrs.define(eq=False, repr=False)
class RecordEdits:
    """Changes by one batch of records, by what they concern."""

    _fold: MetadataFold
    _topics: dict[UUID, _TopicEdit] = attrs.field(factory=dict, init=False)
    _deleted: dict[UUID, TopicImage] = attrs.field(factory=dict, init=False)
    _settings: dict[ConfigResource, dict[str, str]] = attrs.field(factory=dict, init=False)
    _brokers: dict[int, None] = attrs.field(factory=dict, init=False)

    def apply(self, record: MetadataRecord) -> None:
        """Take the next record; raise CorruptRecords if it is of something that is not known."""
        match record:
            case PartitionChangeRecord():
                self._change_partition(record)
            case PartitionRecord():
                self._set_partition(record)
            case TopicRecord():
                self._topics[record.topic_id] = _TopicEdit(record.name, record.topic_id, is_new=True)
            case RemoveTopicRecord():
                self._remove_topic(record.topic_id)
            case ConfigRecord():
                self._set_config(record)
            case RegisterBrokerRecord():
                self._register(record)
            case BrokerRegistrationChangeRecord():
                self._change_registration(record)
            case FenceBrokerRecord() | UnfenceBrokerRecord():
                self._set_broker(record.id, record.epoch, is_fenced=isinstance(record, FenceBrokerRecord))
            case UnregisterBrokerRecord():
                self._fold.brokers.pop(record.broker_id, None)
                self._brokers[record.broker_id] = None

    def changes(self) -> Iterator[Change]:
        image = self._fold.image
        yield from map(TopicDeleted, self._deleted.values())
        gone = {topic_resource(topic.name) for topic in self._deleted.values()}  # a deletion takes settings along
        for resource, settings in self._settings.items():
            if settings or (resource in image.configs and resource not in gone):
                yield ConfigChanged(resource, settings)
        for edit in self._topics.values():
            if edit.is_new:
                yield TopicCreated(TopicImage(edit.name, edit.id, PersistentMap(edit.partitions)))
            else:
                yield PartitionsChanged(edit.name, edit.partitions, edit.id)
        for broker_id in self._brokers:
            broker = self._fold.brokers.get(broker_id)
            if broker is not None and not broker.is_fenced:
                yield BrokerRegistered(broker.registration)
            elif broker_id in image.brokers:
                yield BrokerUnregistered(broker_id)

    # topics

    def _topic(self, topic_id: UUID) -> _TopicEdit:
        edit = self._topics.get(topic_id)
        if edit is None:
            topic = None if topic_id in self._deleted else self._fold.image.topic_by_id(topic_id)
            if topic is None:
                raise CorruptRecords(f"a metadata record is of the topic {topic_id}, which is not known")
            edit = self._topics[topic_id] = _TopicEdit(topic.name, topic_id, is_new=False)
        return edit

    def _set_partition(self, record: PartitionRecord) -> None:
        self._topic(record.topic_id).partitions[record.partition_id] = PartitionState(
            record.leader,
            self._fold.brokers_of(record.replicas),
            self._fold.brokers_of(record.isr),
            record.leader_epoch,
            record.partition_epoch,
            tuple(record.adding_replicas),
            tuple(record.removing_replicas),
            _recovery(record.leader_recovery_state),
        )
        self._assign(record.topic_id, record.partition_id, record.replicas, record.directories)

    def _change_partition(self, record: PartitionChangeRecord) -> None:
        edit, number = self._topic(record.topic_id), record.partition_id
        before = edit.partitions.get(number)
        if before is None and not edit.is_new:
            before = self._fold.image.topics[edit.name].partitions.get(number)
        if before is None:
            raise CorruptRecords(f"a metadata record is of partition {number} of {edit.name}, which is not known")
        has_leader = record.leader != UNCHANGED_LEADER
        after = edit.partitions[number] = attrs.evolve(
            before,
            leader=record.leader if has_leader else before.leader,
            leader_epoch=before.leader_epoch + has_leader,
            partition_epoch=before.partition_epoch + 1,
            isr=self._given(record.isr, before.isr),
            replicas=self._given(record.replicas, before.replicas),
            removing=self._given(record.removing_replicas, before.removing),
            adding=self._given(record.adding_replicas, before.adding),
            recovery=before.recovery if record.leader_recovery_state < 0 else _recovery(record.leader_recovery_state),
        )
        if record.directories is not None or record.replicas is not None:
            self._assign(record.topic_id, number, after.replicas, record.directories or ())

    def _given(self, after: list[int] | None, before: tuple[int, ...]) -> tuple[int, ...]:
        return before if after is None else self._fold.brokers_of(after)

    def _assign(self, topic_id: UUID, number: int, replicas: Iterable[int], directories: Iterable[UUID]) -> None:
        """Note the directory of this broker's replica; versions without directories leave the known one."""
        if self._fold._broker_id not in replicas:
            self._fold.directories.pop((topic_id, number), None)
        for broker_id, directory in zip(replicas, directories, strict=False):
            if broker_id == self._fold._broker_id:
                self._fold.directories[topic_id, number] = directory

    def _remove_topic(self, topic_id: UUID) -> None:
        edit = self._topic(topic_id)
        numbers = set(edit.partitions)
        if not edit.is_new:
            topic = self._deleted[topic_id] = self._fold.image.topics[edit.name]
            numbers.update(topic.partitions)
        del self._topics[topic_id]
        self._settings[topic_resource(edit.name)] = {}
        for number in numbers:
            self._fold.directories.pop((topic_id, number), None)

    # settings

    def _set_config(self, record: ConfigRecord) -> None:
        resource = _resource(record)
        if resource is None:
            return
        settings = self._settings.get(resource)
        if settings is None:
            settings = self._settings[resource] = dict(self._fold.image.settings(resource))
        if record.value is None:
            settings.pop(record.name, None)
        else:
            settings[record.name] = record.value

    # brokers

    def _register(self, record: RegisterBrokerRecord) -> None:
        listeners = {
            end_point.name: BrokerListener(
                end_point.host, end_point.port, PROTOCOLS.get(end_point.security_protocol, end_point.name)
            )
            for end_point in record.end_points
        }
        registration = BrokerRegistration(
            record.broker_id, record.broker_epoch, listeners, record.rack, record.in_controlled_shutdown
        )
        self._fold.brokers[record.broker_id] = RegisteredBroker(registration, record.incarnation_id, record.fenced)
        self._brokers[record.broker_id] = None

    def _change_registration(self, record: BrokerRegistrationChangeRecord) -> None:
        is_fenced = None if record.fenced not in (_FENCED, _UNFENCED) else record.fenced == _FENCED
        self._set_broker(record.broker_id, record.broker_epoch, is_fenced, bool(record.in_controlled_shutdown))

    def _set_broker(self, broker_id: int, epoch: int, is_fenced: bool | None, shuts_down: bool = False) -> None:
        broker = self._fold.brokers.get(broker_id)
        if broker is None or broker.registration.epoch != epoch:
            raise CorruptRecords(f"a metadata record is of broker {broker_id} at epoch {epoch}, which is not known")
        registration = broker.registration
        if shuts_down:
            registration = attrs.evolve(registration, shutting_down=True)
        self._fold.brokers[broker_id] = attrs.evolve(
            broker, registration=registration, is_fenced=broker.is_fenced if is_fenced is None else is_fenced
        )
        self._brokers[broker_id] = None


def _recovery(number: int) -> LeaderRecovery:
    return LeaderRecovery.RECOVERING if number == LeaderRecovery.RECOVERING else LeaderRecovery.RECOVERED


def _resource(record: ConfigRecord) -> ConfigResource | None:
    """Return the resource whose settings brokers keep; None for loggers."""
    match record.resource_type:
        case ResourceType.TOPIC:
            return topic_resource(record.resource_name)
        case ResourceType.BROKER:
            return broker_resource(int(record.resource_name)) if record.resource_name else broker_resource(None)
        case ResourceType.GROUP:
            return group_resource(record.resource_name)
        case ResourceType.CLIENT_METRICS:
            return client_metrics_resource(record.resource_name)
    return None


async def difference(before: ClusterImage, after: ClusterImage) -> list[Change]:
    """Return the changes from one image to another, of a snapshot that replaces it."""
    changes: list[Change] = []
    async for name, topic in over(before.topics.items()):
        present = after.topics.get(name)
        if present is None or present.id != topic.id:
            changes.append(TopicDeleted(topic))
    gone = {topic_resource(change.topic.name) for change in changes if isinstance(change, TopicDeleted)}
    new = (resource for resource in after.configs if resource not in before.configs)
    async for resource in over(chain(before.configs, new)):
        settings = after.settings(resource)
        settings_before = {} if resource in gone else before.settings(resource)
        if settings != settings_before:
            changes.append(ConfigChanged(resource, settings))
    async for name, topic in over(after.topics.items()):
        former = before.topics.get(name)
        if former is None or former.id != topic.id:
            changes.append(TopicCreated(topic))
            continue
        states = {number: state for number, state in topic.partitions.items() if former.partitions.get(number) != state}
        if states:
            changes.append(PartitionsChanged(name, states, topic.id))
    for broker_id, broker in after.brokers.items():
        if before.brokers.get(broker_id) != broker:
            changes.append(BrokerRegistered(broker))
    changes += [BrokerUnregistered(broker_id) for broker_id in before.brokers if broker_id not in after.brokers]
    return changes
