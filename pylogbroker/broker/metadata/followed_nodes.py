"""Nodes of the coordination tree that all brokers read, follow and change: ACLs, users, quotas.

Notifications name what others changed. A new session reads all again, since notifications may have been missed.

A change compares and sets a node's version, so that brokers do not overwrite each other's changes. The broker that
makes a change has it in force before it answers; the others, and Apache Kafka's in the same cluster, when they have
seen the notification.

One lock orders changes and reads, so that what is read is never older than what is in force.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, TypeVar

import attrs
from twisted.internet.defer import DeferredLock, ensureDeferred
from twisted.logger import Logger

from pylogbroker.broker.metadata.new_sessions import NewSessions
from pylogbroker.broker.metadata.notifications import ActOnChanges, Notifications
from pylogbroker.broker.metadata.tree_errors import kafka_error
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.errors import KafkaError
from pylogbroker.interfaces import BadVersion, CoordinationError, ITree, Node, NodeExists, NoNode

log = Logger()
_ATTEMPTS_MAX: Final = 10
T = TypeVar("T")


@attrs.define(eq=False, repr=False)
class FollowedNodes:
    """`_subject` names what the nodes have, in the log; `_acts` are called with notifications, by their parent."""

    _tree: ITree
    _runtime: Runtime
    _subject: str
    _read: Callable[[], Coroutine[Any, Any, None]]
    _acts: Mapping[str, ActOnChanges]
    _lock: DeferredLock = attrs.field(factory=DeferredLock, init=False)
    _sessions: NewSessions = attrs.field(init=False)
    _notifications: Sequence[Notifications] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._sessions = NewSessions(self._tree, self._runtime, self._subject, self._read_all)
        self._notifications = [
            Notifications(self._tree, self._runtime, path, self._subject, act, self._lock)
            for path, act in self._acts.items()
        ]

    async def open(self) -> None:
        """Read all, and follow changes from now on; raise CoordinationError, or what `_read` raises."""
        self._sessions.follow()
        await self._read_all()

    def close(self) -> None:
        self._sessions.stop()
        for notification in self._notifications:
            notification.stop()

    async def change(self, path: str, attempt: Callable[[Node | None], Awaitable[T]]) -> T:
        """Return the result of `attempt`, which gets the node and commits its change; raise KafkaError."""
        await self._lock.acquire()
        try:
            for _ in range(_ATTEMPTS_MAX):
                [node] = await self._tree.get_many([path])
                try:
                    return await attempt(node)
                except (BadVersion, NodeExists, NoNode):
                    continue  # another broker changed it
        except CoordinationError as error:
            if self._runtime.may_log(f"writing {self._subject}"):
                log.error("{subject} could not be changed: {why}", subject=self._subject, why=error)
            raise kafka_error(error) from error
        finally:
            self._lock.release()
        raise KafkaError(f"the {self._subject} in {path} changed {_ATTEMPTS_MAX} times meanwhile; try again")

    def read_again(self) -> None:
        """Read all in the background, until it succeeds or the session ends: then the next one reads."""
        self._sessions.read_again()

    async def read(self) -> None:
        """Read all, in turn with changes; raise CoordinationError."""
        await self._lock.run(lambda: ensureDeferred(self._read()))

    async def _read_all(self) -> None:
        for notification in self._notifications:
            await notification.start()
        await self.read()
