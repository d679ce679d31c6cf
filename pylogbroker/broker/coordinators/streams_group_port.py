"""Port of groups of Kafka Streams to their broker: topics, settings, and internal topics that are created for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

import attrs
from twisted.logger import Logger

from pylogbroker.background import run_in_background
from pylogbroker.broker.coordinators.consumer_group_port import ConsumerGroupPort
from pylogbroker.broker.services import LogServices
from pylogbroker.config.group_config import (
    STREAMS_ASSIGNMENT_INTERVAL,
    STREAMS_ASSIGNOR_DEFAULT,
    STREAMS_HEARTBEAT_INTERVAL,
    STREAMS_INITIAL_DELAY,
    STREAMS_OFFSET_INTERVAL,
    STREAMS_RECOVERY_LAG,
    STREAMS_SESSION_TIMEOUT,
    STREAMS_STANDBYS,
    STREAMS_TAGS,
    STREAMS_WARMUPS,
    group_values,
)
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.groups.consumer.port import TopicShape
from pylogbroker.groups.streams.configuration import TopicToCreate
from pylogbroker.groups.streams.port import StreamsSettings
from pylogbroker.metadata.delta import NewTopic
from pylogbroker.metadata.image import group_resource

log = Logger()
T = TypeVar("T")

_DEFAULT_REPLICATION: Final = -1
_FAILURES_MAX: Final = 1_000


@attrs.define(eq=False, repr=False)
class StreamsGroupPort:
    _services: LogServices
    _common: ConsumerGroupPort
    _creating: set[str] = attrs.field(factory=set, init=False)  # groups whose topics are being created
    _failures: dict[str, str] = attrs.field(factory=dict, init=False)  # by group, of the last creation

    def topic(self, name: str) -> TopicShape | None:
        return self._common.topic(name)

    def settings_of(self, group_id: str) -> StreamsSettings:
        settings = self._services.metadata.image.settings(group_resource(group_id))
        values = group_values(self._services.config, settings)
        return StreamsSettings(
            values.integer(STREAMS_SESSION_TIMEOUT),
            values.integer(STREAMS_HEARTBEAT_INTERVAL),
            values.integer(STREAMS_ASSIGNMENT_INTERVAL),
            values.integer(STREAMS_INITIAL_DELAY),
            values.integer(STREAMS_OFFSET_INTERVAL),
            values.integer(STREAMS_RECOVERY_LAG),
            values.integer(STREAMS_STANDBYS),
            values.integer(STREAMS_WARMUPS),
            values.texts(STREAMS_TAGS),
            STREAMS_ASSIGNOR_DEFAULT,
        )

    def compute(self, work: Callable[[], T], size: int, done: Callable[[T | Exception, int], None]) -> None:
        self._common.compute(work, size, done)

    def member_removed(self, group_id: str, member_id: str, why: str) -> None:
        self._common.member_removed(group_id, member_id, why)

    def assignment_rejected(self, group_id: str, why: str) -> None:
        self._common.assignment_rejected(group_id, why)

    def create_topics(self, group_id: str, topics: Iterable[TopicToCreate]) -> None:
        if group_id not in self._creating:
            self._creating.add(group_id)
            work = self._create(group_id, tuple(topics))
            run_in_background(log, work, "internal topics of a group of Kafka Streams were not created")

    def creation_failure(self, group_id: str) -> str:
        return self._failures.get(group_id, "")

    async def _create(self, group_id: str, topics: tuple[TopicToCreate, ...]) -> None:
        former = self._failures.pop(group_id, "")
        try:
            for topic in topics:
                await self._create_one(topic)
        except KafkaError as error:
            self._note_failure(group_id, error.detail, is_new=error.detail != former)
        finally:
            self._creating.discard(group_id)

    def _note_failure(self, group_id: str, why: str, is_new: bool) -> None:
        while len(self._failures) >= _FAILURES_MAX:
            del self._failures[next(iter(self._failures))]
        self._failures[group_id] = why
        if is_new:  # else it is in the log already: each heartbeat tries again
            log.error(
                "{group}: an internal topic was not created: {why}; members get no tasks until all topics exist",
                group=group_id,
                why=why,
            )

    async def _create_one(self, topic: TopicToCreate) -> None:
        if topic.name in self._services.metadata.topics:
            return
        replicas = topic.replication_factor or _DEFAULT_REPLICATION
        try:
            await self._services.controller.create_topic(
                NewTopic(topic.name, topic.partitions, replicas, settings=dict(topic.settings))
            )
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise KafkaError(f"topic {topic.name}: {error.detail}", error.code) from error
