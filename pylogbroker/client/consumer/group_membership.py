"""Group membership of a connector: by the brokers, in a group of either protocol, or by the coordination tree."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol

import attrs
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from pylogbroker.client.consumer.actions import Partitions
from pylogbroker.client.consumer.assigned_partitions import AssignedPartitions
from pylogbroker.client.consumer.member_state_machine import NO_GENERATION
from pylogbroker.client.consumer.offset_stores import CommitIdentity
from pylogbroker.client.consumer.registry import GroupRegistry
from pylogbroker.client.consumer.stream_subscription import StreamSubscription
from pylogbroker.client.errors import Closed
from pylogbroker.config import Values
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.interfaces import ITree, TopicPartition

log = Logger()


class CoordinatedMember(Protocol):
    """Member of a group that a broker coordinates."""

    @property
    def member_id(self) -> str: ...

    @property
    def generation(self) -> int:
        """Generation, or epoch, of the member; NO_GENERATION before it is accepted."""

    def start(self) -> None: ...

    def topics_changed(self) -> None: ...

    def commit_rejected(self, code: ErrorCode) -> None: ...

    async def leave(self) -> None: ...

    def abandon(self) -> None:
        """End all tasks, without a word to the coordinator."""


class GroupMembership(CommitIdentity, Protocol):
    @property
    def member(self) -> CoordinatedMember | None:
        """Member of a group that a broker coordinates; None without one."""

    def check(self) -> None:
        """Raise before acceptance by the group."""

    def commit_rejected(self, code: ErrorCode) -> None: ...

    async def join(self, subscribed: StreamSubscription, assigned: AssignedPartitions) -> None:
        """Wait for the first assignment."""

    def check_topics(self) -> None: ...

    async def leave(self) -> None:
        """Revoke all partitions and leave; a waiting `join` raises Closed."""


@attrs.define(eq=False, repr=False)
class CoordinatorMembership:
    _new_member: Callable[[MemberListener], CoordinatedMember]
    _instance_id: str | None
    _topics: Callable[[], frozenset[str]]
    _failed: Callable[[Exception], None]
    member: CoordinatedMember | None = None
    _joined: Deferred[None] = attrs.field(factory=Deferred)

    @property
    def generation(self) -> int:
        return NO_GENERATION if self.member is None else self.member.generation

    @property
    def member_id(self) -> str:
        return "" if self.member is None else self.member.member_id

    @property
    def instance_id(self) -> str | None:
        return None if self.member is None else self._instance_id

    def check(self) -> None:
        if self.member is not None and self.generation == NO_GENERATION:
            raise KafkaError(code=ErrorCode.REBALANCE_IN_PROGRESS)

    def commit_rejected(self, code: ErrorCode) -> None:
        if self.member is not None:
            self.member.commit_rejected(code)

    async def join(self, subscribed: StreamSubscription, assigned: AssignedPartitions) -> None:
        listener = MemberListener(assigned, self._topics, self._instance_id, self._joined, self._failed)
        self.member = self._new_member(listener)
        self.member.start()
        await self._joined

    def check_topics(self) -> None:
        if self.member is not None:
            self.member.topics_changed()

    async def leave(self) -> None:
        if self.member is not None:
            await self.member.leave()
        _finish(self._joined, Closed("the connector was shut down"))
        self._joined.addErrback(lambda _: None)  # no caller may be waiting


@attrs.frozen
class MemberListener:
    _assigned: AssignedPartitions
    _topics: Callable[[], frozenset[str]]
    _instance_id: str | None
    _joined: Deferred[None]
    _failed: Callable[[Exception], None]

    def topics(self) -> frozenset[str]:
        return self._topics()

    async def revoke(self, partitions: Partitions, lost: bool) -> None:
        await (self._assigned.lose if lost else self._assigned.revoke)(partitions)

    def assign(self, partitions: Partitions) -> None:
        self._assigned.assign(dict.fromkeys(partitions))
        _finish(self._joined)

    def failed(self, error: Exception) -> None:
        if isinstance(error, KafkaError):
            error = self._explained(error)
        _finish(self._joined, error)
        self._failed(error)

    def _explained(self, error: KafkaError) -> KafkaError:
        name = f"group.instance.id {self._instance_id!r}"
        if error.code is ErrorCode.FENCED_INSTANCE_ID:
            return KafkaError(f"another member has taken over the {name}", error.code)
        if error.code is ErrorCode.UNRELEASED_INSTANCE_ID:
            return KafkaError(
                f"another member still has the {name}: give each running consumer its own, or wait until the session of"
                f" one that has died ends ({error.detail})",
                error.code,
            )
        return error


def _finish(joined: Deferred[None], error: Exception | None = None) -> None:
    if not joined.called:
        joined.callback(None) if error is None else joined.errback(error)


@attrs.define(eq=False, repr=False)
class TreeMembership:
    """Membership by the coordination tree; brokers know no member."""

    _tree: ITree
    _reactor: Any
    _group: str
    _settings: Values
    _on_incomplete: Callable[[Exception], None]
    _registry: GroupRegistry | None = None
    member: None = None
    generation: int = NO_GENERATION
    member_id: str = ""
    instance_id: str | None = None

    def check(self) -> None:
        """Accept: brokers take offsets of a group without members."""

    def commit_rejected(self, code: ErrorCode) -> None:
        """Ignore: the registry is not concerned."""

    async def join(self, subscribed: StreamSubscription, assigned: AssignedPartitions) -> None:
        self._registry = GroupRegistry(
            self._tree,
            self._reactor,
            self._group,
            subscribed.node(),
            _RegistryListener(self._group, assigned, self._on_incomplete),
            max_retries=self._settings.integer("rebalance.max.retries"),
            backoff=self._settings.integer("rebalance.backoff.ms") / 1000,
        )
        await self._registry.start()

    def check_topics(self) -> None:
        """Do nothing: the registry watches."""

    async def leave(self) -> None:
        if self._registry is not None:
            await self._registry.stop()


@attrs.frozen
class _RegistryListener:
    _group: str
    _assigned: AssignedPartitions
    _on_incomplete: Callable[[Exception], None]

    async def revoke(self, partitions: Collection[TopicPartition]) -> None:
        await self._assigned.revoke(partitions)

    async def lose(self, partitions: Collection[TopicPartition]) -> None:
        await self._assigned.lose(partitions)

    def assign(self, partitions: Mapping[TopicPartition, int]) -> None:
        self._assigned.assign(dict(partitions))

    def failed(self, error: Exception) -> None:
        log.warn("the rebalance of group {group} does not complete: {error}", group=self._group, error=error)
        self._on_incomplete(error)
