"""Group membership of a connector, by the brokers or by the coordination tree.

Both call `take`, `give_up` and `lose` of the reading side when partitions come and go. `join` ends with the first
assignment.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

import attrs
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from pylogbroker.client.cluster import Cluster
from pylogbroker.client.consumer.actions import Partitions
from pylogbroker.client.consumer.group_member import GroupMember, GroupSettings
from pylogbroker.client.consumer.membership import NO_GENERATION
from pylogbroker.client.consumer.reading import Reading
from pylogbroker.client.consumer.registry import Registry
from pylogbroker.client.consumer.subscribing import Subscribed
from pylogbroker.client.errors import Closed
from pylogbroker.client.plugging import Plugged
from pylogbroker.config import Values
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.interfaces import IAssignor, ITree, TopicPartition

log = Logger()


class Belonging(Protocol):
    """A connector's membership, and the identity with which it commits offsets."""

    @property
    def generation(self) -> int: ...

    @property
    def member_id(self) -> str: ...

    @property
    def instance_id(self) -> str | None: ...

    @property
    def member(self) -> GroupMember | None:
        """Member of a broker-based group; None for a tree-based one."""

    def check(self) -> None:
        """Raise if offsets cannot be committed now, since the group has not accepted this member yet."""

    def refused(self, code: ErrorCode) -> None:
        """Handle a rejected commit: the member may be unknown to the group now."""

    async def join(self, subscribed: Subscribed) -> None:
        """Become a member and wait for the first partitions."""

    def look(self) -> None:
        """Check for topics that were created, deleted or extended."""

    async def leave(self) -> None:
        """Give up all partitions and leave. Callers that wait in `join` get Closed."""


@attrs.define(eq=False)
class ByBrokers:
    """Membership by Kafka's group protocol."""

    _cluster: Cluster
    _reactor: Any
    _settings: GroupSettings
    _assignors: Sequence[Plugged[IAssignor]]
    _reading: Reading
    _topics: Callable[[], frozenset[str]]
    _failed: Callable[[Exception], None]
    member: GroupMember | None = None
    _settled: Deferred[None] = attrs.field(factory=Deferred)

    @property
    def generation(self) -> int:
        return NO_GENERATION if self.member is None else self.member.generation

    @property
    def member_id(self) -> str:
        return "" if self.member is None else self.member.member_id

    @property
    def instance_id(self) -> str | None:
        return None if self.member is None else self._settings.instance_id

    def check(self) -> None:
        if self.member is not None and self.generation == NO_GENERATION:
            raise KafkaError(code=ErrorCode.REBALANCE_IN_PROGRESS)

    def refused(self, code: ErrorCode) -> None:
        if self.member is not None:
            self.member.refused(code)

    async def join(self, subscribed: Subscribed) -> None:
        self.member = GroupMember(self._cluster, self._reactor, self._settings, self._assignors, self)
        self.member.start()
        await self._settled

    def look(self) -> None:
        if self.member is not None:
            self.member.topics_changed()

    async def leave(self) -> None:
        if self.member is not None:
            await self.member.leave()
        self._settle(Closed("the connector was shut down"))
        self._settled.addErrback(lambda _: None)  # maybe no caller waits for it

    def _settle(self, error: Exception | None = None) -> None:
        if not self._settled.called:
            self._settled.callback(None) if error is None else self._settled.errback(error)

    # -- called by the group -----------------------------------------------------------------------------------------

    def topics(self) -> frozenset[str]:
        return self._topics()

    async def give_up(self, partitions: Partitions, lost: bool) -> None:
        await (self._reading.lose if lost else self._reading.give_up)(partitions)

    def take(self, partitions: Partitions) -> None:
        self._reading.take(dict.fromkeys(partitions))
        self._settle()

    def failed(self, error: Exception) -> None:
        if isinstance(error, KafkaError) and error.code is ErrorCode.FENCED_INSTANCE_ID:
            error = KafkaError(
                f"another member has taken over the group.instance.id {self._settings.instance_id!r}", error.code
            )
        self._settle(error)
        self._failed(error)


@attrs.define(eq=False)
class ByTree:
    """Membership by the registry in the coordination tree; the brokers know no member."""

    _tree: ITree
    _reactor: Any
    _group: str
    _settings: Values
    _reading: Reading
    _unsettled: Callable[[Exception], None]
    _registry: Registry | None = None
    member: None = None
    generation: int = NO_GENERATION
    member_id: str = ""
    instance_id: str | None = None

    def check(self) -> None:
        """Accept: brokers take offsets from anyone while their group has no members."""

    def refused(self, code: ErrorCode) -> None:
        """Ignore the error: it does not concern the registry."""

    async def join(self, subscribed: Subscribed) -> None:
        self._registry = Registry(
            self._tree,
            self._reactor,
            self._group,
            subscribed.node(),
            self,
            max_retries=self._settings.integer("rebalance.max.retries"),
            backoff=self._settings.integer("rebalance.backoff.ms") / 1000,
        )
        await self._registry.start()

    def look(self) -> None:
        """Do nothing: the registry has its own watches."""

    async def leave(self) -> None:
        if self._registry is not None:
            await self._registry.stop()

    # -- called by the registry --------------------------------------------------------------------------------------

    async def give_up(self, partitions: Collection[TopicPartition]) -> None:
        await self._reading.give_up(partitions)

    async def lose(self, partitions: Collection[TopicPartition]) -> None:
        await self._reading.lose(partitions)

    def take(self, partitions: Mapping[TopicPartition, int]) -> None:
        self._reading.take(dict(partitions))

    def failed(self, error: Exception) -> None:
        log.warn("the rebalance of group {group} does not complete: {error}", group=self._group, error=error)
        self._unsettled(error)
