"""The share coordinator in its broker; `__share_group_state` keeps its records."""

from __future__ import annotations

from typing import Final, Protocol

import attrs
from twisted.internet.defer import Deferred

from pylogbroker.broker.coordinators.driver import CoordinatorDriver
from pylogbroker.broker.coordinators.internal_topic import InternalTopic, replication_factor
from pylogbroker.broker.coordinators.partition_writer import PartitionWriter
from pylogbroker.broker.services import LogServices
from pylogbroker.broker.share.persister import SharePersister, StatePeers
from pylogbroker.config import BrokerConfig
from pylogbroker.errors import ErrorCode
from pylogbroker.groups.share.state_coordinator import ShareStateCoordinator, ShareStateSettings, StateWrite
from pylogbroker.groups.share.state_records import SharePartitionKey
from pylogbroker.groups.share.state_shard import ReplayedStates, StateShard
from pylogbroker.groups.share.stored_state import StoredState
from pylogbroker.metadata.delta import BrokerRegistered, BrokerUnregistered, Delta
from pylogbroker.metadata.image import NO_LEADER, BrokerRegistration, ClusterImage, TopicImage
from pylogbroker.metadata.topic_names import SHARE_STATE_TOPIC
from pylogbroker.records import Codec

PERSISTER_CLIENT_ID: Final = "broker-{}-share-persister"


class StateChannels(StatePeers, Protocol):
    """Requests to the share coordinators of other brokers."""

    def disconnect(self, broker_id: int, /) -> None: ...
    def close(self) -> None: ...


@attrs.define(eq=False, repr=False)
class ShareStateService:
    _services: LogServices
    _broker_id: int
    _peers: StateChannels | None = None
    """None: no other broker has states."""
    coordinator: ShareStateCoordinator = attrs.field(init=False)
    persister: SharePersister = attrs.field(init=False)
    _topic: InternalTopic = attrs.field(init=False)
    driver: CoordinatorDriver[ReplayedStates, StateShard] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        services = self._services
        config = services.config
        self._topic = _state_topic(services)
        settings = ShareStateSettings(
            config.share_coordinator_state_topic_num_partitions,
            config.share_coordinator_snapshot_update_records_per_snapshot,
            config.share_coordinator_state_topic_prune_interval_ms,
        )
        self.coordinator = ShareStateCoordinator(settings, self._topic, self)
        self.driver = CoordinatorDriver(services.runtime, self._topic, self.coordinator.runtime, "share groups")
        self.persister = SharePersister(self, self.leader_of, self._broker_id, self._peers, services.runtime)

    def open(self) -> Deferred[None]:
        return self.driver.open()

    def close(self) -> None:
        self.driver.close()
        if self._peers is not None:
            self._peers.close()

    async def ensure_topic(self) -> None:
        await self._topic.ensure()

    def leader_of(self, key: SharePartitionKey) -> int:
        """Return the broker that leads the state of a share partition, by the image; NO_LEADER without one."""
        index = self.partition_for(key)
        if (SHARE_STATE_TOPIC, index) in self._services.partitions.led:
            return self._broker_id
        topic = self._topic.find()
        state = None if topic is None else topic.partitions.get(index)
        return NO_LEADER if state is None else state.leader

    def partition_for(self, key: SharePartitionKey) -> int:
        return self.coordinator.partition_for(key)

    def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> Deferred[ErrorCode]:
        replied: Deferred[ErrorCode] = Deferred()
        self.coordinator.initialize(key, state_epoch, start_offset, replied.callback, self._services.runtime.now_ms())
        return replied

    def read(self, key: SharePartitionKey, leader_epoch: int) -> Deferred[StoredState | ErrorCode]:
        replied: Deferred[StoredState | ErrorCode] = Deferred()
        self.coordinator.read(key, leader_epoch, replied.callback, self._services.runtime.now_ms())
        return replied

    def write(self, key: SharePartitionKey, write: StateWrite) -> Deferred[ErrorCode]:
        replied: Deferred[ErrorCode] = Deferred()
        self.coordinator.write(key, write, replied.callback, self._services.runtime.now_ms())
        return replied

    def delete(self, key: SharePartitionKey) -> Deferred[ErrorCode]:
        replied: Deferred[ErrorCode] = Deferred()
        self.coordinator.delete(key, replied.callback, self._services.runtime.now_ms())
        return replied

    def summary(self, key: SharePartitionKey) -> StoredState | ErrorCode:
        return self.coordinator.summary(key)

    def end_offset(self, partition: int) -> int:
        """Return the end of a partition's log; 0 if this broker does not lead it."""
        led = self._topic.partition(partition)
        return 0 if led is None else led.log.log_end_offset

    def delete_before(self, partition: int, offset: int) -> None:
        """Delete records before an offset that no state needs, if they are replicated."""
        led = self._topic.partition(partition)
        if led is not None and offset > led.log.log_start_offset:
            led.delete_records_before(min(offset, led.log.high_watermark))

    def on_delta(self, delta: Delta, before: ClusterImage, after: ClusterImage) -> None:
        for change in delta:
            self.driver.on_change(change)
            match change:
                case BrokerRegistered(BrokerRegistration(id=broker_id)) | BrokerUnregistered(broker_id):
                    if self._peers is not None:
                        self._peers.disconnect(broker_id)

    def unload_topic(self, topic: TopicImage) -> None:
        self.driver.unload_topic(topic)


def state_topic_settings(config: BrokerConfig) -> dict[str, str]:
    return {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "min.insync.replicas": str(config.share_coordinator_state_topic_min_isr),
        "retention.bytes": "-1",
        "retention.ms": "-1",
        "segment.bytes": str(config.share_coordinator_state_topic_segment_bytes),
        "unclean.leader.election.enable": "false",
    }


def _state_topic(services: LogServices) -> InternalTopic:
    config = services.config
    return InternalTopic(
        services,
        PartitionWriter(services, config.share_coordinator_write_timeout_ms),
        SHARE_STATE_TOPIC,
        config.share_coordinator_state_topic_num_partitions,
        replication_factor(config, "share.coordinator.state.topic.replication.factor"),
        state_topic_settings(config),
        config.share_coordinator_load_buffer_size,
        Codec(config.share_coordinator_state_topic_compression_codec),
    )
