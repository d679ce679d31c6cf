"""Group membership as a state machine, without I/O: responses and the time in ms go in, actions come out.

    state       event                             action                                                 next
    ----------  --------------------------------  -----------------------------------------------------  ---------------
    FINDING     the coordinator is found          heartbeat, if still a member; else as PREPARING        STABLE, JOINING
                it is not found                   look again, after a growing pause                      FINDING
    PREPARING   partitions are revoked            join; look for the coordinator first if it was lost    JOINING
                heartbeats are due                send them: the group waits for this member             PREPARING
    JOINING     a member id is given first        join again with it                                     JOINING
                joined as leader                  assign the partitions                                  ASSIGNING
                joined as follower                sync                                                   SYNCING
    ASSIGNING   the assignor has finished         sync with all assignments                              SYNCING
    SYNCING     an assignment arrives             take its new partitions                                STABLE
                ... without some owned ones       revoke those, join again (cooperative members)         PREPARING
                the group rebalances again        join                                                   JOINING
    STABLE      a heartbeat is due                send it                                                STABLE
                the group rebalances, or the      revoke all owned partitions; if cooperative, only      PREPARING
                subscription has changed          those of unsubscribed topics
    LEAVING     partitions are revoked            send LeaveGroup, unless static                         GONE
    any         not connected, NOT_COORDINATOR,   look for the coordinator; a stable member              FINDING
                silence for session.timeout.ms    continues as such
    any         UNKNOWN_MEMBER_ID,                the partitions are lost; join, with a new id if the    PREPARING
                ILLEGAL_GENERATION                old one is unknown
    any         fenced, or a permanent error      the partitions are lost; report the error              GONE

Cooperative members: KIP-429. A static member (KIP-345) keeps its assignment over a restart.

A response counts only if `revision` has not changed meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import attrs

from pylogbroker.client.consumer.actions import (
    Actions,
    Assign,
    FindCoordinator,
    Partitions,
    ReportFailure,
    Revoke,
    RunAssignor,
    SendHeartbeat,
    SendJoin,
    SendLeave,
    SendSync,
)
from pylogbroker.client.errors import COORDINATOR_MOVED
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.rpc.errors import code_of
from pylogbroker.wire.messages.join_group import JoinGroupResponse

NO_GENERATION = -1
_NOTHING: Partitions = frozenset()
_NO_MEMBER_ANY_MORE = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})


class MemberState(Enum):
    IDLE = "idle"
    FINDING = "finding"
    PREPARING = "preparing"
    JOINING = "joining"
    ASSIGNING = "dividing"
    SYNCING = "syncing"
    STABLE = "stable"
    LEAVING = "leaving"
    GONE = "gone"


@attrs.define(eq=False, repr=False)
class MemberStateMachine:
    session_timeout_ms: int
    heartbeat_interval_ms: int
    backoff_ms: int
    backoff_max_ms: int
    cooperative: bool = False
    static: bool = False
    state: MemberState = MemberState.IDLE
    revision: int = 0
    member_id: str = ""
    generation: int = NO_GENERATION
    leads: bool = False
    owned: Partitions = _NOTHING
    given: Partitions = _NOTHING
    unsubscribed: Partitions = _NOTHING  # owned, but no longer subscribed to
    reason: str = ""
    _protocol: str = ""
    _coordinator_known: bool = False
    _must_join: bool = True
    _again: bool = False
    _failures: int = 0
    _due: int | None = None
    _beat_due: int = 0
    _beat_sent: int | None = None
    _heard: int = 0

    # calls of the user

    def start(self, now: int) -> Actions:
        self._heard = now
        return self._find(now)

    def rejoin(self, reason: str, now: int, unsubscribed: Partitions = _NOTHING) -> Actions:
        self.unsubscribed, self.reason, self._must_join = unsubscribed, reason, True
        if self.state is MemberState.STABLE:
            return self._prepare(now)
        self._again = self.state in (
            MemberState.JOINING,
            MemberState.ASSIGNING,
            MemberState.SYNCING,
        )  # its subscription is outdated
        return []

    def leave(self, now: int) -> Actions:
        if self.state in (MemberState.IDLE, MemberState.GONE):
            self._enter(MemberState.GONE)
            return []
        if self.state is MemberState.PREPARING:  # partitions are being revoked already
            self._enter(MemberState.LEAVING)
            return []
        self._enter(MemberState.LEAVING)
        return [Revoke(self.owned, lost=False)] if self.owned else self.revoked(now)

    # time

    def next_due(self) -> int | None:
        if self._beats:
            expiry = self._heard + self.session_timeout_ms
            return expiry if self._beat_sent is not None else min(self._beat_due, expiry)
        return self._due

    def tick(self, now: int) -> Actions:
        if self._beats:
            return self._send_heartbeat(now)
        if self._due is None or now < self._due:
            return []
        self._due = None
        if self.state is MemberState.FINDING:
            return [FindCoordinator()]
        self._again = False
        return [SendJoin(self.member_id, self.owned, self.given, self.generation, self.reason)]

    @property
    def _beats(self) -> bool:
        has_joined = self._coordinator_known and self.generation != NO_GENERATION
        return has_joined and self.state in (MemberState.STABLE, MemberState.PREPARING)

    def _send_heartbeat(self, now: int) -> Actions:
        if now >= self._heard + self.session_timeout_ms:
            return self._lose_coordinator(now)
        if self._beat_sent is not None or now < self._beat_due:
            return []
        self._beat_sent = now
        return [SendHeartbeat(self.member_id, self.generation)]

    # responses

    def coordinator_found(self, now: int) -> Actions:
        self._coordinator_known = True
        self._heard = self._beat_due = now
        self._beat_sent = None
        if self._must_join or self.generation == NO_GENERATION:
            return self._prepare(now)
        self._enter(MemberState.STABLE)
        return self.tick(now)

    def joined(self, answer: JoinGroupResponse, now: int) -> Actions:
        code = code_of(answer.error_code)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            return self._join(now)
        if code:
            return self.request_rejected(code, now)
        self._failures, self._must_join, self.unsubscribed = 0, False, _NOTHING
        self.member_id, self.generation = answer.member_id, answer.generation_id
        self._protocol = answer.protocol_name or ""
        self._heard, self._beat_due = now, now + self.heartbeat_interval_ms
        self.leads = answer.leader == answer.member_id
        if self.leads and not answer.skip_assignment:
            self._enter(MemberState.ASSIGNING)
            return [RunAssignor(self._protocol, answer.members)]
        return self._sync({})

    def assignor_done(self, shares: Mapping[str, bytes]) -> Actions:
        return self._sync(shares)

    def _sync(self, shares: Mapping[str, bytes]) -> Actions:
        self._enter(MemberState.SYNCING)
        return [SendSync(self.member_id, self.generation, self._protocol, shares)]

    def synced(self, code: ErrorCode, part: Partitions, now: int) -> Actions:
        if code:
            return self.request_rejected(code, now)
        self._failures, self._heard, self._beat_due = 0, now, now + self.heartbeat_interval_ms
        self._beat_sent = None
        added, gone = part - self.owned, self.owned - part
        self.given, self.owned = part, self.owned | part
        if not gone:
            self._enter(MemberState.STABLE)
            return [Assign(added), *(self._prepare(now) if self._again else [])]
        self.reason, self._must_join = "partitions were revoked", True
        self._enter(MemberState.PREPARING)
        return [Revoke(gone, lost=False), Assign(added)]

    def heartbeat_answered(self, code: ErrorCode, now: int) -> Actions:
        sent, self._beat_sent = self._beat_sent, None
        self._beat_due = now + self.heartbeat_interval_ms
        if not code or code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._failures, self._heard = 0, now if sent is None else sent
        if not code or (code is ErrorCode.REBALANCE_IN_PROGRESS and self.state is MemberState.PREPARING):
            return []
        return self.request_rejected(code, now)

    def left(self) -> None:
        self._enter(MemberState.GONE)

    def revoked(self, now: int, partitions: Partitions | None = None) -> Actions:
        self.owned = _NOTHING if partitions is None else self.owned - partitions
        if self.state is MemberState.PREPARING:
            return self._join(now)
        if self.state is not MemberState.LEAVING:
            return []
        if self.owned:
            return [Revoke(self.owned, lost=False)]
        if self._coordinator_known and self.member_id and not self.static:
            return [SendLeave(self.member_id)]
        self._enter(MemberState.GONE)
        return []

    # errors

    def request_rejected(self, code: ErrorCode, now: int, error: Exception | None = None) -> Actions:
        """Handle an error of a request or commit."""
        if self.state in (MemberState.LEAVING, MemberState.GONE):
            return []
        if code in _NO_MEMBER_ANY_MORE:
            return self._lose_membership(code, now)
        if code in COORDINATOR_MOVED:
            return self._lose_coordinator(now)
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            return self._rebalance(now)
        if code.retriable:
            return self._try_again(now)
        return self.failed(error or KafkaError(code=code))

    def disconnected(self, now: int) -> Actions:
        """Handle a lost connection or a timeout."""
        return self.request_rejected(ErrorCode.COORDINATOR_NOT_AVAILABLE, now)

    def failed(self, error: Exception) -> Actions:
        lost, self.owned = self.owned, _NOTHING
        self._enter(MemberState.GONE)
        return [*([Revoke(lost, lost=True)] if lost else []), ReportFailure(error)]

    def _rebalance(self, now: int) -> Actions:
        if self.state is MemberState.STABLE:
            self.reason = "the group rebalances"
            return self._prepare(now)
        if self.state in (MemberState.ASSIGNING, MemberState.SYNCING):
            return self._join(now)
        return self._try_again(now)

    def _try_again(self, now: int) -> Actions:
        if self.state in (MemberState.ASSIGNING, MemberState.SYNCING):
            self._enter(MemberState.JOINING)
        if self.state in (MemberState.FINDING, MemberState.JOINING):
            self._due = now + self._pause()
        return []

    def _lose_coordinator(self, now: int) -> Actions:
        self._coordinator_known = False
        if self.state is MemberState.PREPARING:  # `revoked` looks for it
            return []
        if self.state in (MemberState.JOINING, MemberState.ASSIGNING, MemberState.SYNCING):
            self._must_join = True
        pause = self._pause()
        self._enter(MemberState.FINDING)
        self._due = now + pause
        return []

    def _lose_membership(self, code: ErrorCode, now: int) -> Actions:
        if code is ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        self.generation, self.reason, self.given = NO_GENERATION, f"{code.name}", _NOTHING
        if self.state is MemberState.PREPARING:  # partitions are being revoked already
            return []
        return self._prepare(now)

    def _pause(self) -> int:
        self._failures += 1
        return min(self.backoff_ms << min(self._failures - 1, 20), self.backoff_max_ms)

    # steps

    def _find(self, now: int) -> Actions:
        self._enter(MemberState.FINDING)
        self._due = now
        return self.tick(now)

    def _prepare(self, now: int) -> Actions:
        lost = self.generation == NO_GENERATION
        going = self.owned if lost or not self.cooperative else self.owned & self.unsubscribed
        self._must_join = True
        if not going:
            return self._join(now)
        self._enter(MemberState.PREPARING)
        return [Revoke(going, lost)]

    def _join(self, now: int) -> Actions:
        self._must_join = True
        if not self._coordinator_known:
            return self._find(now)
        self._enter(MemberState.JOINING)
        self._due = now
        return self.tick(now)

    def _enter(self, state: MemberState) -> None:
        self.state = state
        self.revision += 1
        self._due = self._beat_sent = None
