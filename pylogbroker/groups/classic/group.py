"""A group: its members, generation, protocol and offsets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

import attrs

from pylogbroker.coordinators import EventQueue, Reply, Timer, TopicPartition, cancel, check_transition
from pylogbroker.errors import ErrorCode
from pylogbroker.groups.classic.member import PROTOCOL_TYPE, Member, subscribed_topics
from pylogbroker.groups.classic.states import PREDECESSORS, GroupState
from pylogbroker.groups.consumer.partitions import FindTopicId
from pylogbroker.groups.offsets import GroupOffsets, since_commit
from pylogbroker.groups.requests import (
    NO_MEMBER_ID,
    Commit,
    GroupDescription,
    GroupOverview,
    GroupType,
    JoinedMember,
    JoinResult,
    Protocols,
    SyncResult,
    TransactionalCommit,
)


@attrs.define
class InitialDelay:
    """Rest of the first rebalance's delay; whether a member has joined since."""

    remaining_ms: int
    joined: bool = False


@attrs.define(eq=False, repr=False)
class Group:
    # Stages without types: an empty group has none, as in Kafka's records

    group_id: str
    partition: int
    _events: EventQueue
    since: int | None  # begin of the present state, ms; None in the oldest records
    state: GroupState = GroupState.EMPTY
    generation: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str | None = None
    members: dict[str, Member] = attrs.field(factory=dict)
    static: dict[str, str] = attrs.field(factory=dict)  # instance id: member id
    pending: dict[str, Timer] = attrs.field(factory=dict)  # assigned ids that have not joined, and their expiry
    unsynced: set[str] = attrs.field(factory=set)  # members of this generation
    subscribed: frozenset[str] | None = None  # topics of this generation; None: unknown
    offsets: GroupOffsets = attrs.field(factory=GroupOffsets)
    initial_delay: InitialDelay | None = None
    join_timer: Timer | None = None
    sync_timer: Timer | None = None
    storing: int | None = None  # generation whose assignment is being written
    _support: Counter[str] = attrs.field(factory=Counter)  # members by protocol
    _joining: set[str] = attrs.field(factory=set)

    def add(self, member: Member) -> None:
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self._count(member.protocols, 1)
        self._note_joining(member)
        self._forget_pending(member.member_id)

    def remove(self, member_id: str) -> None:
        """Remove a member or an assigned id, without replies."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count(member.protocols, -1)
            if member.instance_id is not None:
                del self.static[member.instance_id]
            cancel(member.session)
        self._joining.discard(member_id)
        self.unsynced.discard(member_id)
        self._forget_pending(member_id)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)

    def update(self, member: Member, protocols: Protocols, rebalance_timeout_ms: int, session_timeout_ms: int) -> None:
        self._count(member.protocols, -1)
        member.protocols = protocols
        self._count(protocols, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def replace_static(self, member: Member, new_id: str) -> None:
        """Give a static member another id; fence requests of the old one."""
        old_id = member.member_id
        self.answer_join(member, JoinResult(ErrorCode.FENCED_INSTANCE_ID, old_id))
        self.answer_sync(member, SyncResult(ErrorCode.FENCED_INSTANCE_ID))
        del self.members[old_id]
        member.member_id = new_id
        self.members[new_id] = member
        if member.instance_id is not None:
            self.static[member.instance_id] = new_id
        if self.leader == old_id:
            self.leader = new_id
        if old_id in self.unsynced:
            self.unsynced.remove(old_id)
            self.unsynced.add(new_id)

    def await_join(self, member: Member, reply: Reply[JoinResult]) -> None:
        """Let the request wait; an earlier one of the member ends, so that retries do not accumulate.

        Kafka never answers the earlier one. Here the next answers on its connection would wait for it.
        """
        self.answer_join(member, JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
        member.join = reply
        self._note_joining(member)

    def answer_join(self, member: Member, result: JoinResult) -> None:
        self._joining.discard(member.member_id)
        reply, member.join = member.join, None
        if reply is not None:
            self._events.reply(reply, result)

    def await_sync(self, member: Member, reply: Reply[SyncResult]) -> None:
        """Let the request wait; an earlier one of the member ends, as in `await_join`."""
        self.answer_sync(member, SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
        member.sync = reply

    def answer_sync(self, member: Member, result: SyncResult) -> bool:
        """Answer the member's waiting request; return whether there was one."""
        reply, member.sync = member.sync, None
        if reply is not None:
            self._events.reply(reply, result)
        return reply is not None

    @property
    def joining(self) -> int:
        return len(self._joining)

    @property
    def all_joined(self) -> bool:
        return len(self._joining) == len(self.members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def elect_leader(self) -> bool:
        """Replace a leader that does not wait; return False if no member waits."""
        if self.leader not in self._joining:
            joined = next((member_id for member_id in self.members if member_id in self._joining), None)
            if joined is None:
                return False
            self.leader = joined
        return True

    def accepts(self, protocol_type: str, protocols: Protocols) -> bool:
        if self.state is GroupState.EMPTY:
            return bool(protocol_type and protocols)
        return protocol_type == self.protocol_type and any(
            self._support[name] == len(self.members) for name, _ in protocols
        )

    def select_protocol(self) -> str:
        candidates = {name for name, count in self._support.items() if count == len(self.members)}
        if len(candidates) == 1:
            return candidates.pop()
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def update_subscriptions(self) -> None:
        self.subscribed = self._subscriptions() if self.protocol_type == PROTOCOL_TYPE else None

    def _subscriptions(self) -> frozenset[str] | None:
        topics: set[str] = set()
        for metadata in {member.metadata(self.protocol_name) for member in self.members.values()}:
            subscribed = subscribed_topics(metadata)
            if subscribed is None:
                return None
            topics |= subscribed
        return frozenset(topics)

    def move(self, state: GroupState, now_ms: int) -> None:
        check_transition(self.state, state, PREDECESSORS)
        self.state = state
        self.since = now_ms

    def next_generation(self, now_ms: int) -> None:
        self.generation += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.update_subscriptions()
        self.unsynced.clear()
        self.storing = None
        self.move(GroupState.COMPLETING if self.members else GroupState.EMPTY, now_ms)

    def stop_timers(self) -> None:
        for timer in (self.join_timer, self.sync_timer, *self.pending.values()):
            cancel(timer)
        for member in self.members.values():
            cancel(member.session)

    def joined_members(self) -> tuple[JoinedMember, ...]:
        return tuple(
            JoinedMember(member.member_id, member.instance_id, member.metadata(self.protocol_name))
            for member in self.members.values()
        )

    def join_result(self, member: Member, members: bool) -> JoinResult:
        return JoinResult(
            ErrorCode.NONE,
            member.member_id,
            self.generation,
            self.protocol_type,
            self.protocol_name,
            self.leader or "",
            members=self.joined_members() if members else (),
        )

    def sync_result(self, member: Member) -> SyncResult:
        return SyncResult(ErrorCode.NONE, self.protocol_type, self.protocol_name, member.assignment)

    def assignments(self, given: Mapping[str, bytes] | None = None) -> dict[str, bytes]:
        """Return the present assignments, or the leader's; empty where it gave none."""
        if given is None:
            return {member.member_id: member.assignment for member in self.members.values()}
        return {member_id: given.get(member_id, b"") for member_id in self.members}

    def is_subscribed(self, topic: str) -> bool:
        """Return whether a member may consume the topic; True if unknown."""
        return self.subscribed is None or topic in self.subscribed

    # -- what groups of both types have --------------------------------------------------------------------------

    @property
    def type(self) -> GroupType:
        return GroupType.CLASSIC

    @property
    def is_dead(self) -> bool:
        return self.state is GroupState.DEAD

    @property
    def is_empty(self) -> bool:
        return self.state is GroupState.EMPTY

    @property
    def has_pending(self) -> bool:
        return bool(self.pending)

    def die(self, now_ms: int) -> None:
        self.move(GroupState.DEAD, now_ms)

    def check_commit(self, commit: Commit, topic_id: FindTopicId) -> ErrorCode:
        is_alone = commit.generation < 0
        if is_alone and self.state is GroupState.EMPTY:
            return ErrorCode.NONE
        if is_alone and commit.member_id == NO_MEMBER_ID and commit.instance_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = self.check_generation(commit.generation, commit.member_id, commit.instance_id)
        if error is ErrorCode.NONE and self.state is GroupState.COMPLETING:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return error

    def check_transactional(self, commit: TransactionalCommit, topic_id: FindTopicId) -> ErrorCode:
        return self.check_generation(commit.generation, commit.member_id, commit.instance_id)

    def check_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        if instance_id is not None:
            current = self.static.get(instance_id)
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def check_generation(self, generation: int, member_id: str, instance_id: str | None) -> ErrorCode:
        error = self.check_member(member_id, instance_id)
        if error is ErrorCode.NONE and generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        return error

    def expired_offsets(self, now_ms: int, retention_ms: int) -> list[TopicPartition]:
        offsets = self.offsets
        if self.protocol_type is None:
            return offsets.expired(now_ms, retention_ms, since_commit)
        if self.state is GroupState.EMPTY:
            since = self.since
            return offsets.expired(now_ms, retention_ms, since_commit if since is None else lambda offset: since)
        if self.state is GroupState.STABLE and self.subscribed is not None:
            return offsets.expired(now_ms, retention_ms, since_commit, self.subscribed)
        return []

    @property
    def consumes_partitions(self) -> bool:
        """Return whether the members are consumers, whose subscriptions name the topics that they read."""
        return self.protocol_type == PROTOCOL_TYPE

    def describe(self) -> GroupDescription:
        """Show protocol and assignments only of a Stable group."""
        protocol = self.protocol_name if self.state is GroupState.STABLE else None
        return GroupDescription(
            ErrorCode.NONE,
            self.group_id,
            self.state.value,
            self.protocol_type or "",
            protocol or "",
            tuple(member.describe(protocol) for member in self.members.values()),
        )

    def overview(self) -> GroupOverview:
        return GroupOverview(self.group_id, self.protocol_type or "", self.state.value, self.type)

    def _count(self, protocols: Protocols, change: int) -> None:
        for name in names(protocols):
            self._support[name] += change
            if not self._support[name]:
                del self._support[name]

    def _note_joining(self, member: Member) -> None:
        if member.join is not None:
            self._joining.add(member.member_id)

    def _forget_pending(self, member_id: str) -> None:
        cancel(self.pending.pop(member_id, None))


def names(protocols: Protocols) -> Collection[str]:
    return dict(protocols).keys()
