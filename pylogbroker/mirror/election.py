"""Which of several processes with the same mirror copies: the others stand by.

The processes are members of a consumer group on the positions topic. The member with its first partition copies. A
process that finds the group without members begins at once: a new group waits seconds for more members. The group
decides only who works: who does not know yet that another process has the partition is fenced by the transactional id.
So a process that was out of the group for a while, such as on a machine without time for it, goes on meanwhile.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Final

import attrs

from pylogbroker.client import ConsumerConnector
from pylogbroker.interfaces import TopicPartition

_DEFAULTS: Final[Mapping[str, str]] = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "1500"}
"""How long the others wait for a process that was killed; brokers allow no shorter time by default."""
_SETTINGS: Final[Mapping[str, str]] = {
    "enable.auto.commit": "false",
    "auto.offset.reset": "latest",
    "partition.assignment.strategy": "cooperative-sticky",
}


@attrs.define(eq=False, repr=False)
class _Listener:
    _partition: TopicPartition
    _changed: Callable[[bool], Awaitable[None] | None]
    _not_assigned: Callable[[], Awaitable[None] | None]
    _lost: Callable[[], Awaitable[None] | None]

    def assigned(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None:
        return self._changed(True) if self._partition in partitions else self._not_assigned()

    def revoked(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None:
        return self._changed(False) if self._partition in partitions else None

    def lost(self, partitions: Collection[TopicPartition]) -> Awaitable[None] | None:
        return self._lost() if self._partition in partitions else None


class Election:
    """Membership of one process. `changed` is called when it is elected; `stopped` when it is not any more.

    Another process begins when the result of `stopped` has fired. With `is_fenced`, another one that begins ends the
    work of this one: so it goes on while it is not known to the group.
    """

    def __init__(
        self,
        bootstrap: str,
        settings: Mapping[str, str],
        group: str,
        topic: str,
        reactor: Any,
        changed: Callable[[], object],
        stopped: Callable[[], Awaitable[None]],
        *,
        is_fenced: bool,
    ) -> None:
        self._topic = topic
        self._on_elected = changed
        self._stopped = stopped
        self._is_fenced = is_fenced
        self.is_elected = False
        self._is_assigned = False
        self._connector = ConsumerConnector(
            bootstrap,
            group=group,
            reactor=reactor,
            settings={**_DEFAULTS, **settings, **_SETTINGS},
            listener=_Listener((topic, 0), self._changed, self._assigned_without, self._lost),
        )

    def begin(self) -> None:
        """Count as elected until the group says otherwise."""
        self.is_elected = True

    async def join(self) -> None:
        """Join the group, and wait for its first decision."""
        await self._connector.create_message_streams({self._topic: 1})
        if self.is_elected and not self._is_assigned:
            await self._changed_to(False)

    async def _changed_to(self, is_elected: bool) -> None:
        waiting = self._changed(is_elected)
        if waiting is not None:
            await waiting

    async def leave(self) -> None:
        self.is_elected = False
        await self._connector.shutdown()

    def _assigned_without(self) -> Awaitable[None] | None:
        """Note an assignment that adds nothing: this process may have the partition already."""
        return None if self._is_assigned else self._changed(False)

    def _lost(self) -> Awaitable[None] | None:
        """Note that the group has not heard of this process for too long. It joins again."""
        if not self._is_fenced:
            return self._changed(False)
        self.is_elected = self._is_assigned = False
        return None

    def _changed(self, is_elected: bool) -> Awaitable[None] | None:
        self.is_elected = self._is_assigned = is_elected
        if is_elected:
            self._on_elected()
            return None
        return self._stopped()
