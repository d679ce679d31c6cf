"""A share group: members, epochs, target assignment, and partitions with a state. No I/O, no clock, no timers.

    state     condition
    ------    ---------------------------------------------
    Dead      it was deleted, or its shard is unloaded
    Empty     it has no members
    Stable    it has members

Members share partitions, so nothing has to be revoked before it is given to another member: a member reaches its target
assignment at its next heartbeat.

A partition is assigned when the share coordinator has a state for it:

    subscribed -> initializing -> initialized -> deleting, with its whole topic -> none

Each change is noted, as by `ConsumerGroup`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import Enum, IntEnum
from typing import Final
from uuid import UUID

import attrs

from pylogbroker.coordinators import TopicPartition
from pylogbroker.errors import ErrorCode
from pylogbroker.groups.changing_group import RecordedGroup
from pylogbroker.groups.consumer.partitions import FindTopicId, TopicIdPartition, by_topic
from pylogbroker.groups.offsets import GroupOffsets
from pylogbroker.groups.requests import Commit, GroupDescription, GroupOverview, GroupType, TransactionalCommit
from pylogbroker.groups.share.member import ShareMember

PROTOCOL_TYPE: Final = "share"
FIRST_EPOCH: Final = 1
"""Epoch of a new group, before its first change."""
NO_PARTITIONS: Final[frozenset[TopicIdPartition]] = frozenset()


class ShareGroupState(Enum):
    """The value is the name in ShareGroupDescribe and ListGroups."""

    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"


class ShareRecordKind(IntEnum):
    """Kinds of records of a share group, in the order in which they are written; the number is the key's version."""

    MEMBER = 10
    GROUP = 11
    TARGET_OF_MEMBER = 13
    TARGET = 12
    CURRENT = 14
    STATE_PARTITIONS = 15


_OF_MEMBERS: Final = (ShareRecordKind.MEMBER, ShareRecordKind.TARGET_OF_MEMBER, ShareRecordKind.CURRENT)
_REMOVAL_ORDER: Final = {
    ShareRecordKind.CURRENT: 0,
    ShareRecordKind.TARGET_OF_MEMBER: 1,
    ShareRecordKind.TARGET: 2,
    ShareRecordKind.MEMBER: 3,
    ShareRecordKind.STATE_PARTITIONS: 4,
    ShareRecordKind.GROUP: 5,
}
_ORDER: Final = {kind: place for place, kind in enumerate(ShareRecordKind)}


@attrs.define(eq=False, repr=False)
class StatePartitions:
    """Partitions of a group, by topic id, that have a state, will have one, or had one; and the names of the topics."""

    names: dict[UUID, str] = attrs.field(factory=dict)
    initializing: dict[UUID, frozenset[int]] = attrs.field(factory=dict)
    initialized: dict[UUID, frozenset[int]] = attrs.field(factory=dict)
    deleting: set[UUID] = attrs.field(factory=set)

    def __contains__(self, topic_id: UUID) -> bool:
        return topic_id in self.initializing or topic_id in self.initialized

    def missing(self, topic_id: UUID, count: int) -> frozenset[int]:
        """Return the partitions of a topic of `count` partitions that have no state, and will have none."""
        initialized = self.initialized.get(topic_id, frozenset())
        if len(initialized) == count:  # as usual, at each heartbeat
            return frozenset()
        present = initialized | self.initializing.get(topic_id, frozenset())
        return frozenset(number for number in range(count) if number not in present)

    def is_initialized(self, partition: TopicIdPartition) -> bool:
        topic_id, number = partition
        return number in self.initialized.get(topic_id, ())

    def all_initialized(self) -> Iterator[TopicIdPartition]:
        return ((topic_id, number) for topic_id, some in self.initialized.items() for number in some)

    def all_of(self, topic_id: UUID) -> frozenset[int]:
        return self.initialized.get(topic_id, frozenset()) | self.initializing.get(topic_id, frozenset())

    def drop_unused_names(self) -> None:
        for topic_id in [topic_id for topic_id in self.names if topic_id not in self and topic_id not in self.deleting]:
            del self.names[topic_id]


@attrs.define(eq=False, repr=False)
class ShareGroup(RecordedGroup):
    group_id: str
    partition: int
    since: int  # ms when the epoch was bumped last
    epoch: int = FIRST_EPOCH
    target_epoch: int = 0
    assigned_ms: int = 0  # when the target assignment was computed last; 0 if never
    metadata_hash: int = 0
    is_dead: bool = False
    members: dict[str, ShareMember] = attrs.field(factory=dict, init=False)
    target: dict[str, frozenset[TopicIdPartition]] = attrs.field(factory=dict, init=False)
    states: StatePartitions = attrs.field(factory=StatePartitions, init=False)
    offsets: GroupOffsets = attrs.field(factory=GroupOffsets, init=False)  # always empty
    _subscribers: Counter[str] = attrs.field(factory=Counter, init=False)  # members by topic
    kinds_of_members = _OF_MEMBERS
    order = _ORDER
    removal_order = _REMOVAL_ORDER

    @property
    def state(self) -> ShareGroupState:
        if self.is_dead:
            return ShareGroupState.DEAD
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    @property
    def is_empty(self) -> bool:
        return not (self.members or self.is_dead)

    @property
    def subscribed(self) -> Collection[str]:
        """Names of all topics to which members subscribe; they need not exist."""
        return self._subscribers.keys()

    def target_of(self, member_id: str) -> frozenset[TopicIdPartition]:
        return self.target.get(member_id, NO_PARTITIONS)

    # -- what groups of all types have ---------------------------------------------------------------------------

    @property
    def type(self) -> GroupType:
        return GroupType.SHARE

    @property
    def has_pending(self) -> bool:
        return False

    @property
    def consumes_partitions(self) -> bool:
        return True

    def is_subscribed(self, topic: str) -> bool:
        return topic in self._subscribers

    def die(self, now_ms: int) -> None:
        self.is_dead = True

    def check_commit(self, commit: Commit, topic_id: FindTopicId) -> ErrorCode:
        """Reject all: share groups have no committed offsets."""
        return ErrorCode.GROUP_ID_NOT_FOUND

    def check_transactional(self, commit: TransactionalCommit, topic_id: FindTopicId) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND

    def expired_offsets(self, now_ms: int, retention_ms: int) -> list[TopicPartition]:
        return []

    def describe(self) -> GroupDescription:
        """Return what DescribeGroups has: only ShareGroupDescribe describes these groups."""
        return GroupDescription(ErrorCode.NONE, self.group_id, ShareGroupState.DEAD.value, type=self.type)

    def overview(self) -> GroupOverview:
        return GroupOverview(self.group_id, PROTOCOL_TYPE, self.state.value, self.type)

    # -- members -------------------------------------------------------------------------------------------------

    def add(self, member: ShareMember) -> None:
        self.members[member.member_id] = member
        self._count(member, 1)
        self._note_member(member.member_id)

    def remove(self, member_id: str) -> None:
        member = self.members.pop(member_id)
        self._count(member, -1)
        self.target.pop(member_id, None)
        self._note_member(member_id)

    def subscribe(self, member: ShareMember, topics: frozenset[str]) -> bool:
        """Change a subscription; return whether it is another one."""
        if topics == member.topics:
            return False
        self._count(member, -1)
        member.topics = topics
        self._count(member, 1)
        self.note_member_change(member)
        return True

    def note_member_change(self, member: ShareMember) -> None:
        """Let the metadata of a member be written."""
        self._changes[ShareRecordKind.MEMBER, member.member_id] = None

    def move(self, member: ShareMember, epoch: int, assigned: frozenset[TopicIdPartition]) -> None:
        """Let a member reach an assignment at an epoch."""
        if epoch != member.epoch:
            member.previous_epoch, member.epoch = member.epoch, epoch
        member.assigned = assigned
        self._changes[ShareRecordKind.CURRENT, member.member_id] = None

    # -- epochs and targets --------------------------------------------------------------------------------------

    def bump(self, now_ms: int) -> None:
        self.epoch += 1
        self.since = now_ms
        self._changes[ShareRecordKind.GROUP, ""] = None

    def set_target(self, epoch: int, target: Mapping[str, frozenset[TopicIdPartition]], now_ms: int) -> None:
        """Set the target assignment of an epoch; members that have left meanwhile have none."""
        for member_id in self.members:
            partitions = target.get(member_id, NO_PARTITIONS)
            if partitions != self.target_of(member_id) or member_id not in self.target:
                self.target[member_id] = partitions
                self._changes[ShareRecordKind.TARGET_OF_MEMBER, member_id] = None
        self.target_epoch, self.assigned_ms = epoch, now_ms
        self._changes[ShareRecordKind.TARGET, ""] = None

    # -- partitions with a state ---------------------------------------------------------------------------------

    def initialize(self, topic_id: UUID, name: str, numbers: Iterable[int]) -> None:
        """Note that partitions are to get a state."""
        states = self.states
        states.names[topic_id] = name
        states.initializing[topic_id] = states.initializing.get(topic_id, frozenset()) | frozenset(numbers)
        self.note_states()

    def initialized(self, partitions: Iterable[TopicIdPartition]) -> bool:
        """Note that partitions have a state; return whether some of them had none before."""
        states, are_new = self.states, False
        for topic_id, made in by_topic(partitions).items():
            waiting = states.initializing.get(topic_id, frozenset())
            numbers = waiting.intersection(made)  # none if the topic was deleted meanwhile
            if not numbers:
                continue
            if numbers == waiting:
                del states.initializing[topic_id]
            else:
                states.initializing[topic_id] = waiting - numbers
            former = states.initialized.get(topic_id, frozenset())
            are_new = are_new or not numbers <= former
            states.initialized[topic_id] = former | numbers
            self.note_states()
        return are_new

    def delete_states(self, topic_ids: Iterable[UUID]) -> None:
        """Note that the states of topics are to be deleted."""
        for topic_id in topic_ids:
            self.states.initializing.pop(topic_id, None)
            self.states.initialized.pop(topic_id, None)
            self.states.deleting.add(topic_id)
        self.note_states()

    def forget_states(self, topic_ids: Iterable[UUID]) -> None:
        """Note that the states of topics are gone, or will go with their topics."""
        for topic_id in topic_ids:
            self.states.initializing.pop(topic_id, None)
            self.states.initialized.pop(topic_id, None)
            self.states.deleting.discard(topic_id)
        self.states.drop_unused_names()
        self.note_states()

    # -- what is to be written -----------------------------------------------------------------------------------

    def note_all(self) -> None:
        """Let everything be written."""
        for kind in (ShareRecordKind.GROUP, ShareRecordKind.TARGET, ShareRecordKind.STATE_PARTITIONS):
            self._changes[kind, ""] = None
        for member_id in self.members:
            self._note_member(member_id)

    def note_states(self) -> None:
        """Let the partitions with a state be written."""
        self._changes[ShareRecordKind.STATE_PARTITIONS, ""] = None

    def _count(self, member: ShareMember, change: int) -> None:
        for topic in member.topics:
            self._subscribers[topic] += change
            if not self._subscribers[topic]:
                del self._subscribers[topic]
