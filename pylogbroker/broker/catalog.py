"""The topics of the cluster: kept in the coordination tree, held in memory for whoever handles a request.

Every change goes one way: it is checked, written to the tree in one transaction, shown in the in-memory view, and told
to the listeners; only then does the operation's awaitable resolve.  Changes run one after the other.  New partitions
are prepared by the broker before they are shown, so that no client sees one that is not served yet.

    create            on_topic_created(topic)
    add_partitions    on_partitions_added(topic, numbers)
    alter_configs     on_config_changed(topic)
    delete            on_topic_deleted(topic)

A deletion is marked in the tree, then told, then the topic's nodes go: one that was interrupted, by a crash or because
the tree could not be written, is told again, and finished, before the next change or at the next start.  The catalog
knows nothing of logs: the broker makes and deletes them as a listener.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Protocol, TypeVar

import attrs
from twisted.internet.defer import DeferredLock
from twisted.logger import Logger

from pylogbroker.broker.coordination_errors import kafka_error
from pylogbroker.broker.limits import PartitionAllowance
from pylogbroker.broker.slices import Slices
from pylogbroker.broker.topic_store import TopicStore
from pylogbroker.config import TOPIC, BrokerConfig, notes_without_effect
from pylogbroker.errors import ConfigError, ErrorCode, KafkaError
from pylogbroker.interfaces import CoordinationError, Operation
from pylogbroker.metadata import placement
from pylogbroker.metadata import topic_names as rules
from pylogbroker.metadata.topic_names import Assignment, ConfigChange, Topic
from pylogbroker.storage.formatting import listed

_T = TypeVar("_T")
log = Logger()


class CatalogListener(Protocol):
    """Told of every change, in order, on the reactor thread, after the tree has it.

    A method may return an awaitable; the next change waits for it.
    """

    def on_topic_created(self, topic: Topic) -> Awaitable[None] | None:
        """A topic is new."""

    def on_topic_deleted(self, topic: Topic) -> Awaitable[None] | None:
        """A topic is gone; no request finds it any more."""

    def on_partitions_added(self, topic: Topic, partitions: Sequence[int]) -> Awaitable[None] | None:
        """A topic, given as it is now, has got these partitions in addition."""

    def on_config_changed(self, topic: Topic) -> Awaitable[None] | None:
        """A topic, given as it is now, has other settings than before."""


Prepare = Callable[[Topic, Collection[int]], Awaitable[None]]


async def _nothing_to_prepare(topic: Topic, partitions: Collection[int]) -> None:
    """Partitions that nobody serves."""


@attrs.define
class Catalog:
    """The in-memory view, and the operations that change it."""

    _store: TopicStore
    _config: BrokerConfig
    _brokers: Callable[[], Sequence[int]]
    _is_due: Callable[[str], bool] = lambda about: True  # whether to tell of something again
    prepare: Prepare = _nothing_to_prepare  # opens new partitions before the topic is shown
    topics: dict[str, Topic] = attrs.field(factory=dict, init=False)
    _by_id: dict[uuid.UUID, Topic] = attrs.field(factory=dict, init=False)
    _collisions: Counter[str] = attrs.field(factory=Counter, init=False)
    _partition_count: int = attrs.field(default=0, init=False)
    _listeners: list[CatalogListener] = attrs.field(factory=list, init=False)
    _interrupted: list[Topic] = attrs.field(factory=list, init=False)
    _lock: DeferredLock = attrs.field(factory=DeferredLock, init=False)

    async def open(self, slices: Slices) -> None:
        """Read every topic; listeners are not told.  Topics that are being deleted are left out."""
        deleted = set(await self._store.load_deletions())
        async for topic in slices.over(await self._store.load(slices)):
            if topic.name in deleted:
                self._interrupted.append(topic)
            else:
                self._show(self._without_bad_settings(topic))

    async def finish_deletions(self) -> None:
        """Finish the deletions that were interrupted; listeners are told."""
        while self._interrupted:
            await self._finish_deletion(self._interrupted[-1])
            self._interrupted.pop()

    def subscribe(self, listener: CatalogListener) -> None:
        """Tell `listener` of every change from now on."""
        self._listeners.append(listener)

    def by_id(self, topic_id: uuid.UUID) -> Topic | None:
        """The topic of that id."""
        return self._by_id.get(topic_id)

    def require(self, name: str) -> Topic:
        """The topic of that name, or UNKNOWN_TOPIC_OR_PARTITION."""
        topic = self.topics.get(name)
        if topic is None:
            raise KafkaError(f"There is no topic {name!r}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return topic

    def require_id(self, topic_id: uuid.UUID) -> Topic:
        """The topic of that id, or UNKNOWN_TOPIC_ID."""
        topic = self._by_id.get(topic_id)
        if topic is None:
            raise KafkaError(f"There is no topic of the id {topic_id}", ErrorCode.UNKNOWN_TOPIC_ID)
        return topic

    # -- what a change would make: checks alone --------------------------------------------------------------------

    def plan_topic(
        self,
        name: str,
        partitions: int = -1,
        replication_factor: int = -1,
        assignment: Assignment | None = None,
        overrides: Mapping[str, str] | None = None,
        allowance: PartitionAllowance | None = None,
    ) -> Topic:
        """The topic that `create` would make; -1 stands for num.partitions and default.replication.factor.

        Its partitions are taken from `allowance`, by default from that of a whole request.
        """
        rules.check_name(name)
        self._check_is_new(name)
        checked = dict(overrides or {})
        self._check_overrides(checked)
        if assignment:
            self._allow(name, len(assignment), allowance)
            placed = placement.by_hand(partitions, replication_factor, self._brokers(), assignment)
        else:
            count = self._config.integer("num.partitions") if partitions == -1 else partitions
            self._allow(name, count, allowance)
            placed = self._spread(count, replication_factor)
        return Topic(name, rules.new_topic_id(), rules.new_partitions(dict(sorted(placed.items()))), checked)

    def plan_partitions(
        self,
        name: str,
        count: int,
        assignments: Sequence[Sequence[int]] | None = None,
        allowance: PartitionAllowance | None = None,
    ) -> Topic:
        """The topic as it would be with `count` partitions in all, the new ones assigned as given or round robin.

        The new ones are taken from `allowance`, by default from that of a whole request.
        """
        topic = self.require(name)
        self._allow(name, count - len(topic.partitions), allowance)
        added = placement.of_more_partitions(topic, count, self._brokers(), assignments)  # type: ignore[arg-type]
        return attrs.evolve(topic, partitions={**topic.partitions, **rules.new_partitions(added)})

    def plan_configs(self, name: str, change: ConfigChange) -> Topic:
        """The topic as it would be when `change` has made its own settings out of those it has."""
        topic = self.require(name)
        overrides = dict(change(topic.overrides))
        self._check_overrides(overrides, topic.overrides)
        return attrs.evolve(topic, overrides=overrides)

    # -- changes ---------------------------------------------------------------------------------------------------

    async def create(
        self,
        name: str,
        partitions: int = -1,
        replication_factor: int = -1,
        assignment: Assignment | None = None,
        overrides: Mapping[str, str] | None = None,
        allowance: PartitionAllowance | None = None,
    ) -> Topic:
        """Make a topic; the arguments are those of `plan_topic`."""

        async def change() -> Topic:
            topic = self.plan_topic(name, partitions, replication_factor, assignment, overrides, allowance)
            await self._store.add(topic)
            await self._get_ready(topic, topic.partitions)
            self._show(topic)
            self._log_without_effect(topic, {})
            await self._notify("on_topic_created", lambda listener: listener.on_topic_created(topic))
            return topic

        return await self._one_at_a_time(change)

    async def add(self, topic: Topic, *others: Operation) -> None:
        """Make a topic that `plan_topic` has planned, and do other operations of the tree in the same transaction."""

        async def change() -> None:
            self._check_is_new(topic.name)
            await self._store.add(topic, *others)
            await self._get_ready(topic, topic.partitions)
            self._show(topic)
            await self._notify("on_topic_created", lambda listener: listener.on_topic_created(topic))

        await self._one_at_a_time(change)

    async def add_partitions(
        self,
        name: str,
        count: int,
        assignments: Sequence[Sequence[int]] | None = None,
        allowance: PartitionAllowance | None = None,
    ) -> Topic:
        """Enlarge a topic to `count` partitions; the arguments are those of `plan_partitions`."""

        async def change() -> Topic:
            topic = self.plan_partitions(name, count, assignments, allowance)
            added = range(len(self.topics[name].partitions), count)
            await self._store.add_partitions(topic, added)
            await self._get_ready(topic, added)
            self._show(topic)
            await self._notify("on_partitions_added", lambda listener: listener.on_partitions_added(topic, added))
            return topic

        return await self._one_at_a_time(change)

    async def alter_configs(self, name: str, alteration: ConfigChange) -> Topic:
        """Change a topic's own settings; the arguments are those of `plan_configs`."""

        async def change() -> Topic:
            topic = self.plan_configs(name, alteration)
            before = self.topics[name].overrides
            await self._store.set_overrides(topic)
            self._show(topic)
            self._log_without_effect(topic, before)
            await self._notify("on_config_changed", lambda listener: listener.on_config_changed(topic))
            return topic

        return await self._one_at_a_time(change)

    async def delete(self, wanted: str | uuid.UUID) -> Topic:
        """Delete the topic that has this name or id, and all that belongs to it."""

        async def change() -> Topic:
            topic = self.require(wanted) if isinstance(wanted, str) else self.require_id(wanted)
            await self._store.mark_deleted(topic)
            self._hide(topic)
            self._interrupted.append(topic)
            await self.finish_deletions()
            return topic

        return await self._one_at_a_time(change)

    # -- inside ----------------------------------------------------------------------------------------------------

    async def _one_at_a_time(self, change: Callable[[], Awaitable[_T]]) -> _T:
        await self._lock.acquire()
        try:
            await self.finish_deletions()
            return await change()
        except CoordinationError as error:
            if self._is_due(f"changes of topics: {type(error).__name__}"):  # clients try again, many times a second
                log.error("a change of topics failed: {why}", why=error)
            raise kafka_error(error) from error
        finally:
            self._lock.release()

    async def _finish_deletion(self, topic: Topic) -> None:
        await self._notify("on_topic_deleted", lambda listener: listener.on_topic_deleted(topic))
        await self._store.remove(topic)

    def _check_is_new(self, name: str) -> None:
        if name in self.topics:
            raise KafkaError(f"Topic {name!r} already exists", ErrorCode.TOPIC_ALREADY_EXISTS)
        key = rules.collision_key(name)
        if self._collisions[key]:
            others = sorted(other for other in self.topics if rules.collision_key(other) == key)
            raise KafkaError(
                f"Topic {name!r} would collide with {', '.join(others)}: "
                "in the names of metrics '.' and '_' are the same; choose another name",
                ErrorCode.INVALID_TOPIC_EXCEPTION,
            )

    def _check_overrides(self, overrides: Mapping[str, str], before: Mapping[str, str] | None = None) -> None:
        try:
            self._config.check_topic(overrides, before)
        except ConfigError as error:
            raise KafkaError(str(error), ErrorCode.INVALID_CONFIG) from error

    def _log_without_effect(self, topic: Topic, before: Mapping[str, str]) -> None:
        """Log the changed settings that the broker does not use, each of them once in a while."""
        notes = notes_without_effect(topic.overrides, before, TOPIC.get)
        due = [note for note in notes if self._is_due(f"no effect: {note}")]
        if due:
            log.warn(
                "settings of topic {topic} are kept and have no effect: {settings}",
                topic=topic.name,
                settings=listed(due),
            )

    def _without_bad_settings(self, topic: Topic) -> Topic:
        """The topic without stored settings that the table no longer takes: they must not keep the broker down."""
        good: dict[str, str] = {}
        for name, text in topic.overrides.items():
            try:
                self._config.topic({**good, name: text})
            except ConfigError as error:
                log.warn("topic {topic} does without a setting: {error}", topic=topic.name, error=error)
            else:
                good[name] = text
        return attrs.evolve(topic, overrides=good)

    def _allow(self, name: str, count: int, allowance: PartitionAllowance | None) -> None:
        """Refuse to create more partitions than a request may, or than this broker is to hold."""
        (allowance or PartitionAllowance()).take(count)
        most = self._config.integer("max.partitions")
        if self._partition_count + count > most and name not in rules.INTERNAL_TOPICS:
            raise KafkaError(
                f"{count} more partitions would exceed max.partitions={most}: there are {self._partition_count}; "
                "delete topics, or raise the setting",
                ErrorCode.POLICY_VIOLATION,
            )

    def _spread(self, count: int, replication_factor: int) -> Assignment:
        width = self._config.integer("default.replication.factor") if replication_factor == -1 else replication_factor
        return placement.of_new_topic(count, width, self._brokers())

    def _show(self, topic: Topic) -> None:
        before = self.topics.get(topic.name)
        if before is None:
            self._collisions[rules.collision_key(topic.name)] += 1
        self._partition_count += len(topic.partitions) - (len(before.partitions) if before else 0)
        self.topics[topic.name] = topic
        self._by_id[topic.id] = topic

    def _hide(self, topic: Topic) -> None:
        del self.topics[topic.name]
        del self._by_id[topic.id]
        self._partition_count -= len(topic.partitions)
        key = rules.collision_key(topic.name)
        self._collisions[key] -= 1
        if not self._collisions[key]:
            del self._collisions[key]

    async def _get_ready(self, topic: Topic, partitions: Collection[int]) -> None:
        try:
            await self.prepare(topic, partitions)
        except Exception:
            log.failure("new partitions of topic {topic} could not all be prepared", topic=topic.name)

    async def _notify(self, what: str, call: Callable[[CatalogListener], Awaitable[None] | None]) -> None:
        for listener in self._listeners:
            try:
                done = call(listener)
                if done is not None:
                    await done
            except Exception:
                log.failure("{listener} failed in {what}", listener=type(listener).__name__, what=what)
