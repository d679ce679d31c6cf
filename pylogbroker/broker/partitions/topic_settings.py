"""Settings of topics, as the partitions here have them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import attrs
from twisted.internet.defer import DeferredLock
from twisted.logger import Logger

from pylogbroker.background import run_in_background
from pylogbroker.broker.metadata.cluster_metadata import ClusterMetadata
from pylogbroker.broker.partitions.delete_policies import DeletePolicies, MissingPolicies
from pylogbroker.broker.partitions.log_config import log_config
from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.broker.partitions.record_checks import MakeRecordCheck, PartitionCheck, is_checked, without_registry
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.broker.runtime.throttles import is_throttled
from pylogbroker.config import BrokerConfig, TopicConfig
from pylogbroker.metadata.delta import ConfigChanged, Delta
from pylogbroker.metadata.image import ClusterImage, ConfigResource, ConfigResourceType, TopicImage
from pylogbroker.storage import GuardedPolicy
from pylogbroker.storage.checkpoints import TopicPartition

log = Logger()


@attrs.define(eq=False, repr=False)
class TopicSettings:
    """Applies settings to partitions: those of topics, and the broker's, which are their defaults."""

    _config: BrokerConfig
    _runtime: Runtime
    _metadata: ClusterMetadata
    _broker_id: int
    _delete_policies: DeletePolicies
    _hosted: Mapping[TopicPartition, Partition]
    _attach_archive: Callable[[Partition], None]
    """Archives a partition if its log's settings say so; else stops that."""
    on_changed: list[Callable[[], None]] = attrs.field(factory=list, init=False)
    """Called after settings were applied."""
    _missing_policies: MissingPolicies = attrs.field(init=False)
    _applying: DeferredLock = attrs.field(factory=DeferredLock, init=False)
    _make_record_check: MakeRecordCheck = attrs.field(default=without_registry, init=False)

    def __attrs_post_init__(self) -> None:
        self._missing_policies = MissingPolicies(self._runtime.clock, self._runtime.log_rate_limit)

    def open(self) -> None:
        """Follow changes of the broker's settings."""
        self._config.observe(self._on_broker_settings)

    def of(self, topic: str) -> TopicConfig:
        return self._config.topic(self._metadata.topic_settings(topic))

    def delete_policies_for(self, settings: TopicConfig) -> tuple[GuardedPolicy, ...]:
        """Return the delete policies that a topic would have with some settings."""
        return self._delete_policies.of(settings, lambda missing: None)

    def note_missing_policies(self) -> None:
        """Log again which topics lack a delete policy: their logs grow."""
        for name in self._missing_policies.take_noted():
            if name in self._metadata.topics:
                self._delete_policies.of(self.of(name), partial(self._missing_policies.note, name))

    async def check_records(self, make: MakeRecordCheck) -> None:
        """Let the records of topics with such settings be checked so from now on."""
        self._make_record_check = make
        await self._apply_to_all()

    async def on_delta(self, delta: Delta, before: ClusterImage, after: ClusterImage) -> None:
        for change in delta:
            match change:
                case ConfigChanged(ConfigResource(ConfigResourceType.TOPICS, name)) if name in before.topics:
                    await self.apply(after.topics[name])
                    self.changed()

    def _on_broker_settings(self, names: frozenset[str]) -> None:
        run_in_background(log, self._apply_to_all(), "the broker's new settings could not be applied to topics")

    async def _apply_to_all(self) -> None:
        async for topic in self._runtime.slices.over(tuple(self._metadata.topics.values())):
            await self.apply(topic)
        self.changed()

    def changed(self) -> None:
        for call in self.on_changed:
            call()

    async def apply(self, topic: TopicImage) -> None:
        """Configure the named partitions of one topic at a time, so that the newest settings win."""
        await self._applying.acquire()
        try:
            await self._apply(topic)
        finally:
            self._applying.release()

    async def _apply(self, topic: TopicImage) -> None:
        settings = self.of(topic.name)
        config = log_config(settings, is_internal=topic.internal)
        policies = self._delete_policies.of(settings, partial(self._missing_policies.note, topic.name))
        local_policies: tuple[GuardedPolicy, ...] = ()
        if config.remote_storage_enable:
            local_policies = self._delete_policies.of(settings.local(), lambda missing: None)
        copy_lag = None if settings.remote_log_copy_disable else settings.copy_lag()
        record_check = self._make_record_check(topic.name, settings) if is_checked(settings) else None
        min_insync_replicas = settings.min_insync_replicas
        may_down_convert = settings.message_downconversion_enable
        leaders = frozenset(settings.leader_replication_throttled_replicas)
        followers = frozenset(settings.follower_replication_throttled_replicas)
        async for index in self._runtime.slices.over(topic.partitions):
            partition = self._hosted.get((topic.name, index))
            if partition is not None:
                if partition.log.config is not config:
                    partition.log.config = config
                partition.delete_policies = policies
                partition.local_delete_policies = local_policies
                partition.copy_lag = copy_lag
                self._attach_archive(partition)
                partition.record_check = None if record_check is None else PartitionCheck(record_check)
                partition.set_min_insync_replicas(min_insync_replicas, len(topic.partitions[index].replicas))
                partition.may_down_convert = may_down_convert
                partition.throttles_followers = is_throttled(leaders, index, self._broker_id)
                partition.is_throttled_follower = is_throttled(followers, index, self._broker_id)
