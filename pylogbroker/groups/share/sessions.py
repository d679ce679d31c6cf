"""Share sessions: the partitions that a member of a share group fetches, by its connection (KIP-932).

    epoch of a request   session here   result
    ------------------   ------------   ------------------------------------------------------------------
    0                    any            a new session, which replaces a former one; epoch 1 is next
    -1                   yes            the last request: the session ends, and what is acquired is released
    the next one         yes            the session goes on; after the largest epoch, 1 is next
    another one          yes            INVALID_SHARE_SESSION_EPOCH
    -1, or above 0       no             SHARE_SESSION_NOT_FOUND

A session ends with its connection. It is never evicted: more than `sessions_max` of a broker are rejected with
SHARE_SESSION_LIMIT_REACHED.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final
from uuid import UUID

import attrs

from pylogbroker.config.value_kinds import INT_MAX
from pylogbroker.errors import ErrorCode

FIRST_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
TopicIdPartition = tuple[UUID, int]


@attrs.define(eq=False, repr=False)
class ShareSession:
    """`partitions` are fetched in this order; `next_epoch` is that of the next request."""

    group_id: str
    member_id: str
    connection: Hashable
    next_epoch: int = 1
    partitions: dict[TopicIdPartition, None] = attrs.field(factory=dict)
    is_open: bool = True

    def update(self, added: Iterable[TopicIdPartition], forgotten: Iterable[TopicIdPartition]) -> None:
        self.partitions.update(dict.fromkeys(added))
        for partition in forgotten:
            self.partitions.pop(partition, None)

    def rotate(self, partition: TopicIdPartition) -> None:
        """Fetch the partition last the next time, so that others get their share of the bytes."""
        if partition in self.partitions:
            del self.partitions[partition]
            self.partitions[partition] = None


@attrs.define(eq=False, repr=False)
class ShareSessions:
    """The share sessions of a broker."""

    sessions_max: int = 2_000  # group.share.max.share.sessions
    _sessions: dict[tuple[str, str], ShareSession] = attrs.field(factory=dict, init=False)
    _by_connection: dict[Hashable, dict[ShareSession, None]] = attrs.field(factory=dict, init=False)

    def __len__(self) -> int:
        return len(self._sessions)

    def find(self, group_id: str, member_id: str) -> ShareSession | None:
        return self._sessions.get((group_id, member_id))

    def open(self, group_id: str, member_id: str, connection: Hashable) -> ShareSession | ErrorCode:
        """Begin a session after `close` of a former one."""
        if len(self._sessions) >= self.sessions_max:
            return ErrorCode.SHARE_SESSION_LIMIT_REACHED
        session = ShareSession(group_id, member_id, connection)
        self._sessions[group_id, member_id] = session
        self._by_connection.setdefault(connection, {})[session] = None
        return session

    def go_on(self, group_id: str, member_id: str, connection: Hashable, epoch: int) -> ShareSession | ErrorCode:
        """Return the session of a request after the first; the epoch is FINAL_EPOCH or the next one."""
        session = self._sessions.get((group_id, member_id))
        if session is None or session.connection != connection:
            return ErrorCode.SHARE_SESSION_NOT_FOUND
        if epoch == FINAL_EPOCH:
            return session
        if epoch != session.next_epoch:
            return ErrorCode.INVALID_SHARE_SESSION_EPOCH
        session.next_epoch = 1 if epoch == INT_MAX else epoch + 1
        return session

    def close(self, session: ShareSession) -> None:
        """Forget a session; the caller releases what its member has acquired."""
        session.is_open = False
        self._sessions.pop((session.group_id, session.member_id), None)
        others = self._by_connection.get(session.connection)
        if others is not None:
            others.pop(session, None)
            if not others:
                del self._by_connection[session.connection]

    def close_connection(self, connection: Hashable) -> list[ShareSession]:
        """Forget the sessions of a lost connection, and return them."""
        ended = list(self._by_connection.get(connection, ()))
        for session in ended:
            self.close(session)
        return ended
