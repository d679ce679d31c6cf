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
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from enum import Enum, IntEnum
from typing import Final
from uuid import UUID

import attrs

from pylogbroker.coordinators import TopicPartition
from pylogbroker.errors import ErrorCode
from pylogbroker.groups.assigned_group import AssignedGroup
from pylogbroker.groups.consumer.partitions import FindTopicId, TopicIdPartition, by_topic
from pylogbroker.groups.offsets import GroupOffsets
from pylogbroker.groups.requests import Commit, GroupType, TransactionalCommit
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
class ShareGroup(AssignedGroup[ShareMember, frozenset[TopicIdPartition]]):
    type = GroupType.SHARE
    protocol_type = PROTOCOL_TYPE
    no_target = NO_PARTITIONS
    kinds = ShareRecordKind
    removed_last = ShareRecordKind.STATE_PARTITIONS, ShareRecordKind.GROUP

    states: StatePartitions = attrs.field(factory=StatePartitions, init=False)
    offsets: GroupOffsets = attrs.field(factory=GroupOffsets, init=False)  # always empty
    _subscribers: Counter[str] = attrs.field(factory=Counter, init=False)  # members by topic

    @property
    def state(self) -> ShareGroupState:
        if self.is_dead:
            return ShareGroupState.DEAD
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    @property
    def subscribed(self) -> Collection[str]:
        """Names of all topics to which members subscribe; they need not exist."""
        return self._subscribers.keys()

    # -- what groups of all types have ---------------------------------------------------------------------------

    def is_subscribed(self, topic: str) -> bool:
        return topic in self._subscribers

    def check_commit(self, commit: Commit, topic_id: FindTopicId) -> ErrorCode:
        """Reject all: share groups have no committed offsets."""
        return ErrorCode.GROUP_ID_NOT_FOUND

    def check_transactional(self, commit: TransactionalCommit, topic_id: FindTopicId) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND

    def expired_offsets(self, now_ms: int, retention_ms: int) -> list[TopicPartition]:
        return []

    # -- members -------------------------------------------------------------------------------------------------

    def add(self, member: ShareMember) -> None:
        super().add(member)
        self._count(member, 1)

    def remove(self, member_id: str) -> None:
        member = self.members[member_id]
        super().remove(member_id)
        self._count(member, -1)

    def subscribe(self, member: ShareMember, topics: frozenset[str]) -> bool:
        """Change a subscription; return whether it is another one."""
        if topics == member.topics:
            return False
        self._count(member, -1)
        member.topics = topics
        self._count(member, 1)
        self.note_member_change(member)
        return True

    def move(self, member: ShareMember, epoch: int, assigned: frozenset[TopicIdPartition]) -> None:
        """Let a member reach an assignment at an epoch."""
        if epoch != member.epoch:
            member.previous_epoch, member.epoch = member.epoch, epoch
        member.assigned = assigned
        self._changes[ShareRecordKind.CURRENT, member.member_id] = None

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

    def note_states(self) -> None:
        """Let the partitions with a state be written."""
        self._changes[ShareRecordKind.STATE_PARTITIONS, ""] = None

    def _count(self, member: ShareMember, change: int) -> None:
        for topic in member.topics:
            self._subscribers[topic] += change
            if not self._subscribers[topic]:
                del self._subscribers[topic]
