"""Port of consumer groups to their broker: topics, settings, and threads for what takes long."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import UUID

import attrs
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from pylogbroker.background import run_in_background
from pylogbroker.broker.coordinators.partition_racks import PartitionRacks
from pylogbroker.broker.services import LogServices
from pylogbroker.config.group_config import ASSIGNMENT_INTERVAL, HEARTBEAT_INTERVAL, SESSION_TIMEOUT, group_values
from pylogbroker.features import on_first_use
from pylogbroker.groups.consumer.port import GroupTimes, InvalidExpression, Matches, TopicShape
from pylogbroker.groups.consumer.requests import MaySee
from pylogbroker.long_loops import over
from pylogbroker.metadata.image import group_resource

if TYPE_CHECKING:
    from pylogbroker.broker.coordinators import topic_expressions
else:
    topic_expressions = on_first_use("pylogbroker.broker.coordinators.topic_expressions")

log = Logger()
T = TypeVar("T")

_INLINE_MAX: Final = 1_000
"""Most members and partitions of an assignment that is computed at once, in about 2 ms."""


@attrs.define(eq=False, repr=False)
class ConsumerGroupPort:
    """`topics_version` grows when topics are created or deleted."""

    _services: LogServices
    topics_version: int = attrs.field(default=1, init=False)
    _racks: PartitionRacks = attrs.field(factory=PartitionRacks, init=False)

    def topic(self, name: str) -> TopicShape | None:
        metadata = self._services.metadata
        topic = metadata.topics.get(name)
        if topic is None:
            return None
        return TopicShape(topic.id, len(topic.partitions), *self._racks.of(topic, metadata.image.brokers))

    def topic_name(self, topic_id: UUID) -> str | None:
        topic = self._services.metadata.image.topic_by_id(topic_id)
        return None if topic is None else topic.name

    def times_of(self, group_id: str) -> GroupTimes:
        settings = self._services.metadata.image.settings(group_resource(group_id))
        values = group_values(self._services.config, settings)
        return GroupTimes(*map(values.integer, (SESSION_TIMEOUT, HEARTBEAT_INTERVAL, ASSIGNMENT_INTERVAL)))

    def compute(self, work: Callable[[], T], size: int, done: Callable[[T | Exception, int], None]) -> None:
        if size > _INLINE_MAX:
            run_in_background(log, self._compute(work, done), "a consumer group was not assigned")
            return
        done(_outcome(work), self._services.runtime.now_ms())

    async def _compute(self, work: Callable[[], T], done: Callable[[T | Exception, int], None]) -> None:
        outcome: Deferred[T | Exception] = self._services.runtime.in_thread(_outcome, work)
        done(await outcome, self._services.runtime.now_ms())

    def resolve(self, expressions: Collection[str], may_see: MaySee, done: Callable[[Matches, int], None]) -> None:
        work = self._resolve(tuple(expressions), may_see, done)
        run_in_background(log, work, "the regular expressions of a consumer group were not resolved")

    def member_removed(self, group_id: str, member_id: str, why: str) -> None:
        log.info("{group}: removed member {member}: {why}", group=group_id, member=member_id, why=why)

    def assignment_rejected(self, group_id: str, why: str) -> None:
        log.error("{group}: keeps its target assignment: {why}", group=group_id, why=why)

    async def _resolve(
        self, expressions: tuple[str, ...], may_see: MaySee, done: Callable[[Matches, int], None]
    ) -> None:
        runtime = self._services.runtime
        search = partial(_search, expressions, self._services.metadata.topics)
        matches = await runtime.in_thread(search)
        visible = await runtime.slices.run(_visible(matches, may_see))
        done(visible, runtime.now_ms())


def _outcome(work: Callable[[], T]) -> T | Exception:
    try:
        return work()
    except Exception as failure:  # the group keeps its former assignment
        return failure


def _search(expressions: tuple[str, ...], topics: Any) -> dict[str, list[str] | InvalidExpression]:
    return topic_expressions.match_topics(expressions, topics)


async def _visible(matches: dict[str, list[str] | InvalidExpression], may_see: MaySee) -> Matches:
    visible: dict[str, frozenset[str] | InvalidExpression] = {}
    for expression, names in matches.items():
        if isinstance(names, InvalidExpression):
            visible[expression] = names
        else:
            visible[expression] = frozenset([name async for name in over(names) if may_see(name)])
    return visible
