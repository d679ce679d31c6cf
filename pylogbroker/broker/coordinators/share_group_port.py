"""Port of share groups to their broker: topics, settings, and the states at the share coordinators."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Protocol, TypeVar
from uuid import UUID

import attrs
from twisted.logger import Logger

from pylogbroker.background import run_in_background
from pylogbroker.broker.coordinators.consumer_group_port import ConsumerGroupPort
from pylogbroker.broker.services import LogServices
from pylogbroker.config.group_config import (
    SHARE_ASSIGNMENT_INTERVAL,
    SHARE_HEARTBEAT_INTERVAL,
    SHARE_SESSION_TIMEOUT,
    group_values,
)
from pylogbroker.errors import ErrorCode
from pylogbroker.groups.consumer.partitions import TopicIdPartition
from pylogbroker.groups.consumer.port import GroupTimes, TopicShape
from pylogbroker.groups.share.port import StatesDone
from pylogbroker.metadata.image import group_resource

log = Logger()
T = TypeVar("T")


class StatePersister(Protocol):
    """Calls of the share coordinators about partitions of a group."""

    async def initialize(
        self, group_id: str, state_epoch: int, starts: Mapping[TopicIdPartition, int], /
    ) -> Mapping[TopicIdPartition, ErrorCode]: ...
    async def delete(
        self, group_id: str, partitions: Iterable[TopicIdPartition], /
    ) -> Mapping[TopicIdPartition, ErrorCode]: ...


@attrs.define(eq=False, repr=False)
class ShareGroupPort:
    _services: LogServices
    _common: ConsumerGroupPort
    _persister: StatePersister

    def topic(self, name: str) -> TopicShape | None:
        return self._common.topic(name)

    def topic_name(self, topic_id: UUID) -> str | None:
        return self._common.topic_name(topic_id)

    def times_of(self, group_id: str) -> GroupTimes:
        settings = self._services.metadata.image.settings(group_resource(group_id))
        values = group_values(self._services.config, settings)
        names = (SHARE_SESSION_TIMEOUT, SHARE_HEARTBEAT_INTERVAL, SHARE_ASSIGNMENT_INTERVAL)
        return GroupTimes(*map(values.integer, names))

    def compute(self, work: Callable[[], T], size: int, done: Callable[[T | Exception, int], None]) -> None:
        self._common.compute(work, size, done)

    def initialize(
        self, group_id: str, state_epoch: int, starts: Mapping[TopicIdPartition, int], done: StatesDone
    ) -> None:
        work = self._initialize(group_id, state_epoch, starts, done)
        run_in_background(log, work, "states of a share group were not initialized")

    async def _initialize(
        self, group_id: str, state_epoch: int, starts: Mapping[TopicIdPartition, int], done: StatesDone
    ) -> None:
        results: Mapping[TopicIdPartition, ErrorCode] = dict.fromkeys(starts, ErrorCode.UNKNOWN_SERVER_ERROR)
        try:
            results = await self._persister.initialize(group_id, state_epoch, starts)
        finally:
            done(results, self._services.runtime.now_ms())

    def delete(self, group_id: str, partitions: Collection[TopicIdPartition], done: StatesDone) -> None:
        run_in_background(log, self._delete(group_id, partitions, done), "states of a share group were not deleted")

    async def _delete(self, group_id: str, partitions: Collection[TopicIdPartition], done: StatesDone) -> None:
        results: Mapping[TopicIdPartition, ErrorCode] = dict.fromkeys(partitions, ErrorCode.UNKNOWN_SERVER_ERROR)
        try:
            results = await self._persister.delete(group_id, partitions) if partitions else {}
        finally:
            done(results, self._services.runtime.now_ms())

    def member_removed(self, group_id: str, member_id: str, why: str) -> None:
        self._common.member_removed(group_id, member_id, why)

    def assignment_rejected(self, group_id: str, why: str) -> None:
        self._common.assignment_rejected(group_id, why)

    def states_failed(self, group_id: str, error: ErrorCode) -> None:
        if self._services.runtime.may_log("states of share groups"):
            log.warn(
                "{group}: partitions of the share group wait for __share_group_state, {error}; it is tried again",
                group=group_id,
                error=error.name,
            )
