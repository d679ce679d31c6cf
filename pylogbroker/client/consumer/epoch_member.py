"""Membership of a group whose coordinator assigns (KIP-848), as a state machine without I/O.

Responses and the time in ms go in, actions come out.

    state      event                             action                                              next
    ---------  --------------------------------  --------------------------------------------------  --------------
    IDLE       start                             join                                                JOINING
    JOINING    accepted                          take the partitions of the assignment               STABLE
    STABLE     an assignment without owned ones  revoke those                                        REVOKING
               new partitions in the assignment  take them; send a heartbeat at once                 STABLE
    REVOKING   a heartbeat is due                send it: the partitions are owned until revoked     REVOKING
               partitions are revoked            take new ones; send a heartbeat at once             STABLE
               another assignment                compare it when the revocation has ended            REVOKING
    FENCED     partitions are dropped            join again, with epoch 0                            JOINING
    LEAVING    a heartbeat is due                send it: offsets are committed before the end       LEAVING
               partitions are revoked            send the last heartbeat, with epoch -1 or -2        DEPARTING
    DEPARTING  answered, or no answer comes                                                          GONE
    JOINING, STABLE, REVOKING
               FENCED_MEMBER_EPOCH, or unknown   the partitions are lost                             FENCED
    any        a permanent error                 the partitions are lost; report the error           GONE

The link to the coordinator has states of its own, since a revocation may last longer than the coordinator lives:

    link       event                             action                       next
    ---------  --------------------------------  ---------------------------  ---------
    UNKNOWN    due                               look for the coordinator     FINDING
    FINDING    found                                                          READY
    READY      a heartbeat is due                send it                      BUSY
    BUSY       answered                          follow the answer            READY
    any        not connected, NOT_COORDINATOR    pause                        UNKNOWN

A heartbeat says what has changed since the last one that was answered, after an error everything. Partitions have
topic ids; those without a known name wait until `topics_named`. An answer counts only if `revision` has not changed
meanwhile.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from enum import Enum
from typing import Final
from uuid import UUID

import attrs

from pylogbroker.client.consumer.actions import (
    Actions,
    Assign,
    FindCoordinator,
    LookUpTopics,
    MemberSubscription,
    Partitions,
    ReportFailure,
    Revoke,
    SendEpochHeartbeat,
    TopicIdPartition,
)
from pylogbroker.client.errors import COORDINATOR_MOVED
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.interfaces import TopicPartition

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2
NO_EPOCH: Final = -1
HEARTBEAT_MS_MIN: Final = 10
"""Shortest interval of heartbeats, whatever the broker says."""

_FENCED: Final = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND})
_OUTDATED: Final = _FENCED | {ErrorCode.STALE_MEMBER_EPOCH}
_NO_TOPICS: Final = MemberSubscription()
_NEVER: Final = sys.maxsize
_NOTHING: Final[frozenset[TopicIdPartition]] = frozenset()


class EpochMemberState(Enum):
    IDLE = "idle"
    JOINING = "joining"
    STABLE = "stable"
    REVOKING = "revoking"
    FENCED = "fenced"
    LEAVING = "leaving"
    DEPARTING = "departing"
    GONE = "gone"


class Link(Enum):
    UNKNOWN = "unknown"
    FINDING = "finding"
    READY = "ready"
    BUSY = "busy"


_ACTIVE: Final = frozenset({EpochMemberState.JOINING, EpochMemberState.STABLE, EpochMemberState.REVOKING})


@attrs.frozen
class EpochHeartbeatAnswer:
    """Answer without an error; `assignment` is None if it has not changed."""

    epoch: int
    interval_ms: int
    assignment: frozenset[TopicIdPartition] | None = None
    member_id: str | None = None


@attrs.define(eq=False, repr=False)
class EpochMember:
    member_id: str
    subscription: MemberSubscription
    backoff_ms: int
    backoff_max_ms: int
    release_timeout_ms: int  # for another member to give the instance id up
    static: bool = False
    says_owned: bool = True  # whether heartbeats have the owned partitions
    state: EpochMemberState = EpochMemberState.IDLE
    link: Link = Link.UNKNOWN
    revision: int = 0
    epoch: int = JOIN_EPOCH
    owned: frozenset[TopicIdPartition] = _NOTHING
    assignment: frozenset[TopicIdPartition] = _NOTHING
    _names: dict[UUID, str | None] = attrs.field(factory=dict)  # None: the program does not read the topic
    _revoking: frozenset[TopicIdPartition] = _NOTHING
    _says_all: bool = True  # in the next heartbeat
    _said_subscription: MemberSubscription = _NO_TOPICS
    _said_owned: frozenset[TopicIdPartition] = _NOTHING
    _interval_ms: int = 5_000
    _failures: int = 0
    _due: int = 0
    _lookup_due: int = _NEVER
    _is_looking_up: bool = False
    _release_until: int = _NEVER

    @property
    def generation(self) -> int:
        """Epoch for commits; NO_EPOCH before the group has accepted the member."""
        return self.epoch if self.epoch > JOIN_EPOCH else NO_EPOCH

    @property
    def _beats(self) -> bool:
        """Return whether heartbeats are sent; one of a fenced member that leaves would join again."""
        leaves = self.state is EpochMemberState.LEAVING and self.epoch > JOIN_EPOCH
        return leaves or self.state in _ACTIVE

    # calls of the user

    def start(self, now: int) -> Actions:
        self.state = EpochMemberState.JOINING
        self._due = now
        return self.tick(now)

    def subscribe(self, subscription: MemberSubscription, now: int) -> Actions:
        if subscription == self.subscription:
            return []
        self.subscription = subscription
        return self._hurry(now)

    def leave(self, now: int) -> Actions:
        if self.state in (EpochMemberState.IDLE, EpochMemberState.GONE):
            self.state = EpochMemberState.GONE
            return []
        if self.state in (EpochMemberState.LEAVING, EpochMemberState.DEPARTING):
            return []
        self.state = EpochMemberState.LEAVING
        if self._revoking:
            return []
        return self._revoke_all(lost=self.epoch == JOIN_EPOCH) if self.owned else self._depart()

    def commit_rejected(self, code: ErrorCode, now: int) -> Actions:
        """Send a heartbeat at once: its answer has the present epoch, or says that there is no such member."""
        if not self._beats:
            return []
        if code in COORDINATOR_MOVED:
            return self._lose_coordinator(now)
        return self._hurry(now) if code in _OUTDATED else []

    # time

    def next_due(self) -> int | None:
        sends = self._beats and self.link in (Link.UNKNOWN, Link.READY)
        due = min(self._lookup_due, self._due if sends else _NEVER)
        return None if due == _NEVER else due

    def tick(self, now: int) -> Actions:
        actions: Actions = []
        if now >= self._lookup_due:
            self._lookup_due = _NEVER
            actions += self._look_up()
        if self._beats and now >= self._due:
            actions += self._go_on()
        return actions

    def _go_on(self) -> Actions:
        if self.link is Link.UNKNOWN:
            self.link = Link.FINDING
            return [FindCoordinator()]
        if self.link is Link.READY:
            self.link = Link.BUSY
            return [self._heartbeat()]
        return []

    def _heartbeat(self) -> SendEpochHeartbeat:
        is_full, self._says_all = self._says_all, False
        heartbeat = SendEpochHeartbeat(
            self.member_id,
            self.epoch,
            self.subscription if is_full or self.subscription != self._said_subscription else None,
            self.owned if is_full or self.owned != self._said_owned else None,
            is_full,
        )
        self._said_subscription, self._said_owned = self.subscription, self.owned
        return heartbeat

    # responses

    def coordinator_found(self, now: int) -> Actions:
        self.link = Link.READY
        self._due = now
        return self.tick(now)

    def heartbeat_answered(self, answer: EpochHeartbeatAnswer, names: Mapping[UUID, str | None], now: int) -> Actions:
        """Follow an answer; `names` has those of its topics that are known."""
        if answer.epoch < self.epoch:
            return self._fence(now)  # not an epoch of this member
        self.link = Link.READY
        self._failures, self._release_until = 0, _NEVER
        self._interval_ms = max(answer.interval_ms, HEARTBEAT_MS_MIN)
        self._due = now + self._interval_ms
        self.member_id = answer.member_id or self.member_id
        if answer.epoch <= JOIN_EPOCH:  # the coordinator has not assigned yet
            self._says_all = True
            return []
        self.epoch = answer.epoch
        if answer.assignment is not None:
            self.assignment = answer.assignment
        self._learn(names)
        is_new = self.state is EpochMemberState.JOINING
        if is_new:
            self.state = EpochMemberState.STABLE
        return [*self._reconcile(now, is_new), *self._look_up()]

    def topics_named(self, names: Mapping[UUID, str | None], now: int) -> Actions:
        """Take partitions of topics whose names were missing; look again for the others after a pause."""
        self._is_looking_up = False
        self._learn(names)
        if self._unnamed() and self._beats:
            self._lookup_due = now + self.backoff_max_ms
        return self._reconcile(now)

    def revoked(self, now: int) -> Actions:
        """Continue when the partitions of the last Revoke are released."""
        self.owned -= self._revoking
        self._revoking = _NOTHING
        match self.state:
            case EpochMemberState.REVOKING:
                self.state = EpochMemberState.STABLE
                return self._reconcile(now)
            case EpochMemberState.FENCED:
                return self._revoke_all(lost=True) if self.owned else self._join(now)
            case EpochMemberState.LEAVING:
                return self._revoke_all(lost=self.epoch == JOIN_EPOCH) if self.owned else self._depart()
        return []

    def left(self) -> None:
        self._end()

    # errors

    def request_rejected(self, code: ErrorCode, now: int, error: Exception | None = None) -> Actions:
        if not self._beats:
            return []
        if code in _FENCED:
            return self._fence(now)
        if code in COORDINATOR_MOVED:
            return self._lose_coordinator(now)
        if code.retriable or self._awaits_release(code, now):
            self._pause(now, Link.READY if self.link is Link.BUSY else Link.UNKNOWN)
            return []
        if self.state is EpochMemberState.LEAVING:
            self.epoch = JOIN_EPOCH
            return []
        return self.failed(error or KafkaError(code=code))

    def disconnected(self, now: int) -> Actions:
        """Handle a lost connection or a timeout."""
        return self.request_rejected(ErrorCode.COORDINATOR_NOT_AVAILABLE, now)

    def failed(self, error: Exception) -> Actions:
        lost = self.owned - self._revoking
        self.owned = self._revoking
        self._end()
        return [*([Revoke(self._named(lost), lost=True)] if lost else []), ReportFailure(error)]

    def _awaits_release(self, code: ErrorCode, now: int) -> bool:
        """Return whether the former member of the instance id may still go: it may have died without leaving."""
        if code is not ErrorCode.UNRELEASED_INSTANCE_ID or self.epoch != JOIN_EPOCH:
            return False
        if self._release_until == _NEVER:
            self._release_until = now + self.release_timeout_ms
        return now < self._release_until

    def _lose_coordinator(self, now: int) -> Actions:
        self._pause(now, Link.UNKNOWN)
        return []

    def _pause(self, now: int, link: Link) -> None:
        self.link = link
        self.revision += 1
        self._says_all = True
        self._due = now + min(self.backoff_ms << min(self._failures, 20), self.backoff_max_ms)
        self._failures += 1

    def _fence(self, now: int) -> Actions:
        was_joining = self.state is EpochMemberState.JOINING
        self.epoch, self.assignment = JOIN_EPOCH, _NOTHING
        self._pause(now, Link.READY)
        if not was_joining:
            self._due = now
        if self.state is EpochMemberState.LEAVING:
            return []
        self.state = EpochMemberState.FENCED
        if self._revoking:
            return []
        return self._revoke_all(lost=True) if self.owned else self._join(now)

    # steps

    def _join(self, now: int) -> Actions:
        self.state = EpochMemberState.JOINING
        return self.tick(now)

    def _revoke_all(self, lost: bool) -> Actions:
        self._revoking = self.owned
        return [Revoke(self._named(self.owned), lost)]

    def _depart(self) -> Actions:
        may_be_member = self.epoch > JOIN_EPOCH or self.link is Link.BUSY
        if not may_be_member or self.link not in (Link.READY, Link.BUSY):
            self._end()
            return []
        self.state = EpochMemberState.DEPARTING
        self.revision += 1
        epoch = STATIC_LEAVE_EPOCH if self.static else LEAVE_EPOCH
        return [SendEpochHeartbeat(self.member_id, epoch)]

    def _end(self) -> None:
        self.state = EpochMemberState.GONE
        self.revision += 1
        self._lookup_due = _NEVER

    def _reconcile(self, now: int, is_new: bool = False) -> Actions:
        """Revoke what is not assigned any more; only then take what is new."""
        actions: Actions = []
        if self.state is EpochMemberState.STABLE:
            gone = self.owned - self.assignment
            if gone:
                self.state, self._revoking = EpochMemberState.REVOKING, gone
                actions = [Revoke(self._named(gone), lost=False)]
            else:
                added = self._take()
                actions = [Assign(added)] if added or is_new else []
        return [*actions, *(self._hurry(now) if self._has_news() else [])]

    def _take(self) -> Partitions:
        """Own assigned partitions with a name, which no other topic that is owned may have."""
        taken = self._named(self.owned)
        added: set[TopicPartition] = set()
        for partition in sorted(self.assignment - self.owned):
            name = self._names.get(partition[0])
            key = (name or "", partition[1])
            if name is not None and key not in taken and key not in added:
                added.add(key)
                self.owned |= {partition}
        return frozenset(added)

    def _has_news(self) -> bool:
        has_other_partitions = self.says_owned and self.owned != self._said_owned
        return self._says_all or has_other_partitions or self.subscription != self._said_subscription

    def _hurry(self, now: int) -> Actions:
        """Send a heartbeat at once, or after the pause that an error demands."""
        if not self._failures:
            self._due = min(self._due, now)
        return self.tick(now)

    # names

    def _learn(self, names: Mapping[UUID, str | None]) -> None:
        self._names.update(names)
        topics = {topic_id for topic_id, _ in self.owned | self.assignment}
        self._names = {topic_id: name for topic_id, name in self._names.items() if topic_id in topics}

    def _unnamed(self) -> frozenset[UUID]:
        return frozenset(topic_id for topic_id, _ in self.assignment if topic_id not in self._names)

    def _look_up(self) -> Actions:
        unnamed = self._unnamed()
        if not unnamed or self._is_looking_up or not self._beats:
            return []
        self._is_looking_up, self._lookup_due = True, _NEVER
        return [LookUpTopics(unnamed)]

    def _named(self, partitions: Collection[TopicIdPartition]) -> Partitions:
        pairs = ((self._names.get(topic_id), number) for topic_id, number in partitions)
        return frozenset((name, number) for name, number in pairs if name is not None)
