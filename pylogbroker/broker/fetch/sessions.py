"""Fetch sessions (KIP-227): a fetcher names its partitions once, then only changes.

    session_id  epoch   means                                     answered with
    0           -1      no session wanted                         all partitions, session 0
    any         0       a new session (ending the one named)      all partitions, the new session's id, or 0 if full
    n           -1      end session n                             all partitions, session 0
    n           k > 0   the k-th request of session n             the partitions with data, an error or new offsets

With all slots taken, a new session replaces one that was idle for `MIN_IDLE_MS`. At `PARTITIONS_MAX` partitions in all,
no session begins, and growing ones end: their fetchers go on without.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import attrs

from pylogbroker.broker.fetch.follower_session import FollowerSession
from pylogbroker.broker.fetch.session import CONSUMER, FetchSession, RequestedPartitions, fetcher_of
from pylogbroker.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from pylogbroker.wire.messages.fetch import FetchRequest

MIN_IDLE_MS = 120_000
FIRST_EPOCH = 0
FINAL_EPOCH = -1

PARTITIONS_MAX = 500_000
"""Of all sessions; each partition takes about half a kilobyte."""


@attrs.define
class FetchSessions:
    slots: int
    partitions_max: int = PARTITIONS_MAX
    evictions: int = attrs.field(default=0, init=False)
    """Idle sessions that were evicted for new ones, since the start."""
    _partitions: int = attrs.field(default=0, init=False)
    _sessions: dict[int, FetchSession] = attrs.field(factory=dict, init=False)  # least recently used first

    def __len__(self) -> int:
        return len(self._sessions)

    def find(self, session_id: int) -> FetchSession | None:
        return self._sessions.get(session_id)

    @property
    def partition_count(self) -> int:
        return self._partitions

    def enter(
        self, request: FetchRequest, requested: RequestedPartitions, now_ms: int, by_id: bool = False
    ) -> FetchSession | None:
        """Return the session that the request resumes or begins, or None; `by_id`: topics are named by id.

        Raises KafkaError with FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH or FETCH_SESSION_TOPIC_ID_ERROR.
        """
        if request.session_epoch not in (FIRST_EPOCH, FINAL_EPOCH):
            return self._resume(request, requested, now_ms, by_id)
        if request.session_id:
            self._drop(request.session_id)
        return self._begin(request, requested, now_ms, by_id) if request.session_epoch == FIRST_EPOCH else None

    def end(self, session: FetchSession) -> None:
        """End a session of which the fetcher has not heard."""
        self._drop(session.id)

    def _resume(self, request: FetchRequest, requested: RequestedPartitions, now_ms: int, by_id: bool) -> FetchSession:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise KafkaError(f"There is no fetch session {request.session_id}", ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if request.session_epoch != session.epoch:
            raise KafkaError(
                f"Fetch session {session.id} expects epoch {session.epoch}, not {request.session_epoch}",
                ErrorCode.INVALID_FETCH_SESSION_EPOCH,
            )
        if by_id != session.by_id:
            raise KafkaError(
                f"Fetch session {session.id} began {'with' if session.by_id else 'without'} topic ids",
                ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
            )
        before = len(session.partitions)
        session.update(request, requested)
        self._partitions += len(session.partitions) - before
        if self._partitions > self.partitions_max and len(session.partitions) > before:
            self._drop(session.id)
            raise KafkaError(
                f"All fetch sessions together have more than {self.partitions_max} partitions",
                ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
            )
        self.used(session, now_ms)
        return session

    def used(self, session: FetchSession, now_ms: int) -> None:
        """Note an incremental request of a session."""
        session.used(now_ms)
        self._sessions[session.id] = self._sessions.pop(session.id)

    def _begin(
        self, request: FetchRequest, requested: RequestedPartitions, now_ms: int, by_id: bool
    ) -> FetchSession | None:
        if not self._free_slot(now_ms):
            return None
        session = self._new_session(fetcher_of(request), by_id, now_ms)
        session.update(request, requested)
        if self._partitions + len(session.partitions) > self.partitions_max:
            return None
        self._partitions += len(session.partitions)
        self._sessions[session.id] = session
        return session

    def _drop(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partitions -= len(session.partitions)
            session.end()

    def _free_slot(self, now_ms: int) -> bool:
        if len(self._sessions) < self.slots:
            return True
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None or now_ms - oldest.last_used_ms < MIN_IDLE_MS:
            return False
        self._drop(oldest.id)
        self.evictions += 1
        return True

    def _new_session(self, fetcher: int, by_id: bool, now_ms: int) -> FetchSession:
        if fetcher <= CONSUMER:
            return FetchSession(self._new_id(), by_id, last_used_ms=now_ms)
        return FollowerSession(self._new_id(), by_id, last_used_ms=now_ms, replica_id=fetcher)

    def _new_id(self) -> int:
        while True:
            session_id = random.randint(1, 0x7FFFFFFF)
            if session_id not in self._sessions:
                return session_id
