"""Orders of the cluster's controller: LeaderAndIsr, UpdateMetadata, StopReplica.

    request          checked                          effect
    ---------------  -------------------------------  ----------------------------------------------------------
    LeaderAndIsr     broker epoch, controller epoch   `Replicas` leads or follows
    UpdateMetadata   broker epoch, controller epoch;  the image, for clients: partitions, live brokers, controller;
                     each partition's epoch           `Replicas` stops those moved to other brokers, and those of
                                                      another topic of the same name
    StopReplica      broker epoch, controller epoch   `Replicas` stops, perhaps deletes

The settings of a new topic are read first: the first two do without them otherwise, since nobody announces them.

A request for an earlier life of this broker, or of an earlier controller, is rejected as a whole. After a crash all are
for the earlier life until the broker has left the ISRs (see `departure`): it must not lead without its last records.
Before the first registration requests wait for it, as in Kafka: only then is it known which are for an earlier life.

Requests are carried out one after the other, in the order of arrival. Those for many partitions give way to other
work: only the image changes at once. Source: Kafka's class ReplicaManager.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import attrs
from twisted.internet.defer import Deferred, DeferredLock, ensureDeferred
from twisted.logger import Logger

from pylogbroker.broker.metadata.cluster_metadata import ClusterMetadata
from pylogbroker.broker.replication.replicas import Replicas
from pylogbroker.broker.runtime.slices import Slices
from pylogbroker.config import TopicConfig
from pylogbroker.coordinators import TopicPartition
from pylogbroker.errors import ErrorCode
from pylogbroker.interfaces import CoordinationError
from pylogbroker.long_loops import mapped
from pylogbroker.metadata.delta import (
    BrokerRegistered,
    BrokerUnregistered,
    Change,
    ConfigChanged,
    ControllerElected,
    Delta,
    PartitionsChanged,
    TopicCreated,
    TopicDeleted,
)
from pylogbroker.metadata.image import (
    NO_TOPIC_ID,
    BrokerListener,
    BrokerRegistration,
    PartitionState,
    TopicImage,
    is_another_topic,
    topic_resource,
)
from pylogbroker.metadata.persistent_map import PersistentMap
from pylogbroker.metadata.topic_names import INTERNAL_TOPICS
from pylogbroker.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
    LeaderAndIsrTopicState,
)
from pylogbroker.wire.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
)
from pylogbroker.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
    UpdateMetadataTopicState,
)

log = Logger()
_LEADER_OF_DELETED: Final = -2
_UNKNOWN_EPOCH: Final = -1
_FIRST_LEADER_AND_ISR_BY_ID: Final = 5
_PROTOCOLS: Final = {0: "PLAINTEXT", 1: "SSL", 2: "SASL_PLAINTEXT", 3: "SASL_SSL"}

_ControllerRequest = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest


@attrs.define(eq=False, repr=False)
class ControllerOrders:
    """`read_topics` reads settings of new topics into the image, and returns internal topics with all partitions.

    `topic_names` reads the names of all topics. Both raise CoordinationError.
    """

    _metadata: ClusterMetadata
    _replicas: Replicas
    _slices: Slices
    _topic_config: Callable[[str], TopicConfig]
    _read_topics: Callable[[Sequence[str]], Awaitable[Mapping[str, TopicImage]]]
    _topic_names: Callable[[], Awaitable[Collection[str]]]
    broker_epoch: int = attrs.field(default=_UNKNOWN_EPOCH, init=False)
    _may_know_deleted: bool = attrs.field(default=False, init=False)
    _whole: Mapping[str, TopicImage] = attrs.field(factory=dict, init=False)
    """Internal topics that the present order has introduced."""
    after_absence: list[Callable[[], None]] = attrs.field(factory=list, init=False)
    """Called with the first order of a new registration or controller: earlier orders may be lost."""
    is_departing: bool = attrs.field(default=False, init=False)
    _brokers: Mapping[int, BrokerRegistration] | None = attrs.field(default=None, init=False)
    """Those that the replicas have."""
    _controller_epoch: int = attrs.field(default=0, init=False)
    _unregistered: list[Deferred[None]] = attrs.field(factory=list, init=False)
    """Requests that wait for the first registration."""
    _is_closed: bool = attrs.field(default=False, init=False)
    _lock: DeferredLock = attrs.field(factory=DeferredLock, init=False)

    def set_broker_epoch(self, epoch: int) -> None:
        self.broker_epoch = epoch
        self._may_know_deleted = True
        self._go_on()

    def close(self) -> None:
        """Reject requests that wait for the registration: it will not come."""
        self._is_closed = True
        self._go_on()

    def _go_on(self) -> None:
        unregistered, self._unregistered = self._unregistered, []
        for waiting in unregistered:
            waiting.callback(None)

    @property
    def _is_unregistered(self) -> bool:
        return self.broker_epoch == _UNKNOWN_EPOCH

    async def _until_registered(self, request: _ControllerRequest) -> None:
        is_ended = self.is_departing or self._is_closed
        if self._is_unregistered and request.broker_epoch != _UNKNOWN_EPOCH and not is_ended:
            waiting: Deferred[None] = Deferred()
            self._unregistered.append(waiting)
            await waiting

    def departed(self) -> None:
        self.is_departing = False

    async def lead_and_follow(self, request: LeaderAndIsrRequest, version: int) -> LeaderAndIsrResponse:
        await self._until_registered(request)
        await self._lock.acquire()
        try:
            if error := self._rejection(request):
                return LeaderAndIsrResponse(error)
            topics = _topics_of(request)
            if error := await self._read_new(topics) or self._rejection(request):  # a session may have passed
                return LeaderAndIsrResponse(error)
            by_id = version >= _FIRST_LEADER_AND_ISR_BY_ID
            response = LeaderAndIsrResponse()
            for topic in topics:
                errors = await self._obey(topic)
                every = await self._slices.run(_errors(topic, "" if by_id else topic.topic_name, errors))
                if by_id:
                    response.topics.append(LeaderAndIsrTopicError(topic.topic_id, every))
                else:
                    response.partition_errors += every
            return response
        finally:
            self._lock.release()

    async def update_metadata(self, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
        await self._until_registered(request)
        await self._lock.acquire()
        try:
            if error := self._rejection(request):
                return UpdateMetadataResponse(error)
            topics = _metadata_topics_of(request)
            if error := await self._read_new(topics) or self._rejection(request):  # a session may have passed
                return UpdateMetadataResponse(error)
            if self._may_know_deleted:
                await self._forget_deleted()
            changes: list[Change] = [*self._broker_changes(request.live_brokers)]
            if request.controller_id != self._metadata.image.controller_id:
                changes.append(ControllerElected(request.controller_id))
            announced = [(topic, await self._news_of(topic)) for topic in topics]
            for topic, states in announced:
                changes += self._topic_changes(topic, states)
            if changes:
                await self._metadata.publish(Delta.of(*changes))
            await self._take_brokers()
            for topic, states in announced:
                await self._replicas.stop_moved(topic.topic_name, topic.topic_id, states)
            return UpdateMetadataResponse()
        finally:
            self._lock.release()

    async def run_alone(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run some work while no order is carried out."""
        await self._lock.run(lambda: ensureDeferred(work()))

    async def _take_brokers(self) -> None:
        """Give the replicas the live brokers, at first and after changes: each replica is looked at."""
        brokers = self._metadata.image.brokers
        if brokers is not self._brokers:
            self._brokers = brokers
            await self._replicas.brokers_changed(dict(brokers.items()))

    async def stop_replicas(self, request: StopReplicaRequest) -> StopReplicaResponse:
        await self._until_registered(request)
        await self._lock.acquire()
        try:
            if error := self._rejection(request):
                return StopReplicaResponse(error)
            orders = {key: order async for key, order in self._slices.over(_stops_of(request))}
            errors = await self._replicas.stop(orders)

            def answer(key: TopicPartition) -> StopReplicaPartitionError:
                return StopReplicaPartitionError(*key, errors.get(key, ErrorCode.NONE))

            return StopReplicaResponse(partition_errors=await self._slices.run(mapped(answer, orders)))
        finally:
            self._lock.release()

    def _rejection(self, request: _ControllerRequest) -> ErrorCode | None:
        if self.is_departing or _UNKNOWN_EPOCH < request.broker_epoch < self.broker_epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        if self._is_closed and self._is_unregistered:
            return ErrorCode.STALE_BROKER_EPOCH
        if request.controller_epoch < self._controller_epoch:
            log.warn(
                "rejected a request of controller {controller}: its epoch {epoch} is over, {newest} has begun",
                controller=request.controller_id,
                epoch=request.controller_epoch,
                newest=self._controller_epoch,
            )
            return ErrorCode.STALE_CONTROLLER_EPOCH
        self._may_know_deleted |= request.controller_epoch > self._controller_epoch
        self._controller_epoch = request.controller_epoch
        return None

    async def _read_new(
        self, topics: Sequence[LeaderAndIsrTopicState] | Sequence[UpdateMetadataTopicState]
    ) -> ErrorCode | None:
        """Read new topics; return an error if the session has ended, and with it this broker's epoch."""
        try:
            self._whole = await self._read_topics([topic.topic_name for topic in topics if self._is_new(topic)])
        except CoordinationError:
            return ErrorCode.STALE_BROKER_EPOCH
        return None

    async def _forget_deleted(self) -> None:
        """Forget topics that were deleted before this controller was elected, or knew of this registration.

        No order of it names them. Logs that are left of them are kept: a tree without topics may be a mistake.
        """
        try:
            names = set(await self._topic_names())
            replaced = await self._read_replaced(names)
        except CoordinationError:
            return  # the next order will do
        self._may_know_deleted = False
        for call in self.after_absence:
            call()
        deleted = [topic for name, topic in self._metadata.topics.items() if name not in names]
        if deleted:
            await self._metadata.publish(Delta.of(*map(TopicDeleted, deleted)))
            await self._replicas.stop(
                {(topic.name, index): (_UNKNOWN_EPOCH, False) for topic in deleted for index in topic.partitions}
            )
        for former, present in replaced:
            settings = ConfigChanged(topic_resource(former.name), self._metadata.topic_settings(former.name))
            await self._replicas.leave_earlier(former, present)
            await self._metadata.publish(Delta.of(TopicDeleted(former), settings, TopicCreated(present)))

    async def _read_replaced(self, names: Collection[str]) -> list[tuple[TopicImage, TopicImage]]:
        """Return internal topics, as known and as stored, that were deleted and made again with fewer partitions.

        Before protocol version 2.8 topics have no id, and no order says that a partition is no more. Coordinators find
        theirs by the number of partitions.
        """
        images = {name: topic for name in INTERNAL_TOPICS if (topic := self._metadata.topics.get(name)) is not None}
        without_id = [name for name, topic in images.items() if topic.id == NO_TOPIC_ID and name in names]
        stored = await self._read_topics(without_id)
        return [
            (images[name], topic)
            for name, topic in stored.items()
            if set(images[name].partitions) - set(topic.partitions)
        ]

    def _is_new(self, topic: LeaderAndIsrTopicState | UpdateMetadataTopicState) -> bool:
        image = self._metadata.topics.get(topic.topic_name)
        return image is None or is_another_topic(topic.topic_id, image.id)

    # LeaderAndIsr

    async def _obey(self, topic: LeaderAndIsrTopicState) -> dict[int, ErrorCode]:
        states: dict[int, PartitionState] = {}
        new: set[int] = set()
        async for state in self._slices.over(topic.partition_states):
            states[state.partition_index] = _ordered_state(state)
            if state.is_new:
                new.add(state.partition_index)
        rejected = self._not_replicable(topic.topic_name, states)
        for index in rejected:
            del states[index]
        image = TopicImage(topic.topic_name, topic.topic_id, PersistentMap(states))
        errors = await self._replicas.apply(image, new, self._metadata.topic_settings(topic.topic_name))
        return {**errors, **rejected}

    def _not_replicable(self, topic: str, states: Mapping[int, PartitionState]) -> dict[int, ErrorCode]:
        """Return errors for partitions of format 0.7 with several replicas, which other controllers may order."""
        if not self._topic_config(topic).byte_addressed:
            return {}
        rejected = [index for index, state in states.items() if len(state.replicas) > 1]
        if rejected:
            log.error(
                "topic {topic} is of format 0.7, which has one replica: partitions {partitions} have several and are "
                "not served here. Create it again with one replica, or with another message.format.version",
                topic=topic,
                partitions=rejected,
            )
        return dict.fromkeys(rejected, ErrorCode.KAFKA_STORAGE_ERROR)

    # UpdateMetadata

    def _broker_changes(self, live: Iterable[UpdateMetadataBroker]) -> Iterable[Change]:
        registered = self._metadata.image.brokers
        brokers = {announced.id: _registration(announced, registered.get(announced.id)) for announced in live}
        for broker_id, broker in brokers.items():
            if registered.get(broker_id) != broker:
                yield BrokerRegistered(broker)
        for broker_id in registered:
            if broker_id not in brokers:
                yield BrokerUnregistered(broker_id)

    async def _news_of(self, topic: UpdateMetadataTopicState) -> dict[int, PartitionState]:
        """Return the announced states, but none older than the known one: a paused broker may get requests late.

        Partitions that are being deleted have none. Only these orders change states, so that no known one is outdated.
        """
        image = self._metadata.topics.get(topic.topic_name)
        is_same = image is not None and image.id == topic.topic_id != NO_TOPIC_ID
        present = image.partitions if image is not None and is_same else {}
        states: dict[int, PartitionState] = {}
        async for state in self._slices.over(topic.partition_states):
            if state.leader != _LEADER_OF_DELETED:
                before = present.get(state.partition_index)
                if before is None or state.zk_version >= before.partition_epoch:
                    states[state.partition_index] = _announced_state(state)
        return states

    def _topic_changes(self, topic: UpdateMetadataTopicState, states: Mapping[int, PartitionState]) -> Iterable[Change]:
        image = self._metadata.topics.get(topic.topic_name)
        deleted = any(state.leader == _LEADER_OF_DELETED for state in topic.partition_states)
        if image is not None and (deleted or is_another_topic(topic.topic_id, image.id)):
            yield TopicDeleted(image)
            if not deleted:  # the deletion takes the settings along, which are those of the new topic already
                yield ConfigChanged(topic_resource(image.name), self._metadata.topic_settings(image.name))
            image = None
        if states and image is None:
            yield TopicCreated(self._created(topic, states))
        elif states:
            yield PartitionsChanged(topic.topic_name, states, topic.topic_id)

    def _created(self, topic: UpdateMetadataTopicState, states: Mapping[int, PartitionState]) -> TopicImage:
        """Return a new topic; an internal one with all partitions, since coordinators find theirs by their number."""
        whole = self._whole.get(topic.topic_name)
        if whole is not None and not is_another_topic(topic.topic_id, whole.id):
            states = {**whole.partitions, **states}
        return TopicImage(topic.topic_name, topic.topic_id, PersistentMap(states))


def _topics_of(request: LeaderAndIsrRequest) -> list[LeaderAndIsrTopicState]:
    if request.topic_states:
        return request.topic_states
    topics: dict[str, LeaderAndIsrTopicState] = {}
    for state in request.ungrouped_partition_states:
        topics.setdefault(state.topic_name, LeaderAndIsrTopicState(state.topic_name)).partition_states.append(state)
    return list(topics.values())


def _metadata_topics_of(request: UpdateMetadataRequest) -> list[UpdateMetadataTopicState]:
    if request.topic_states:
        return request.topic_states
    topics: dict[str, UpdateMetadataTopicState] = {}
    for state in request.ungrouped_partition_states:
        topics.setdefault(state.topic_name, UpdateMetadataTopicState(state.topic_name)).partition_states.append(state)
    return list(topics.values())


def _errors(
    topic: LeaderAndIsrTopicState, name: str, errors: Mapping[int, ErrorCode]
) -> Coroutine[Any, Any, list[LeaderAndIsrPartitionError]]:
    def answer(state: LeaderAndIsrPartitionState) -> LeaderAndIsrPartitionError:
        index = state.partition_index
        return LeaderAndIsrPartitionError(name, index, errors.get(index, ErrorCode.NONE))

    return mapped(answer, topic.partition_states)


def _stops_of(request: StopReplicaRequest) -> Iterator[tuple[TopicPartition, tuple[int, bool]]]:
    """Yield each partition, its leader epoch and whether to delete it, from any version's fields."""
    for partition in request.ungrouped_partitions:
        yield (partition.topic_name, partition.partition_index), (_UNKNOWN_EPOCH, request.delete_partitions)
    for old in request.topics:
        for index in old.partition_indexes:
            yield (old.name, index), (_UNKNOWN_EPOCH, request.delete_partitions)
    for topic in request.topic_states:
        for state in topic.partition_states:
            yield (topic.topic_name, state.partition_index), (state.leader_epoch, state.delete_partition)


def _ordered_state(state: LeaderAndIsrPartitionState) -> PartitionState:
    return PartitionState(
        state.leader,
        tuple(state.replicas),
        tuple(state.isr),
        state.leader_epoch,
        state.partition_epoch,
        tuple(state.adding_replicas),
        tuple(state.removing_replicas),
        controller_epoch=state.controller_epoch,
    )


def _announced_state(state: UpdateMetadataPartitionState) -> PartitionState:
    return PartitionState(
        state.leader,
        tuple(state.replicas),
        tuple(state.isr),
        state.leader_epoch,
        state.zk_version,
        controller_epoch=state.controller_epoch,
        offline=tuple(state.offline_replicas),
    )


def _registration(broker: UpdateMetadataBroker, former: BrokerRegistration | None) -> BrokerRegistration:
    """Return the broker; its epoch, which the request lacks, is kept if its addresses are the same."""
    listeners = {
        endpoint.listener: BrokerListener(
            endpoint.host, endpoint.port, _PROTOCOLS.get(endpoint.security_protocol, "PLAINTEXT")
        )
        for endpoint in broker.endpoints
    }
    same = former is not None and former.listeners == listeners
    return BrokerRegistration(broker.id, former.epoch if same and former else -1, listeners, broker.rack)
