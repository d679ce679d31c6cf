"""A consumer group: members, epochs, target assignment, and who holds which partition. No I/O, no clock, no timers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from enum import IntEnum
from typing import Final

import attrs

from pylogbroker.errors import ErrorCode
from pylogbroker.groups.assigned_group import CommittingGroup, RecordKey
from pylogbroker.groups.classic.member import PROTOCOL_TYPE
from pylogbroker.groups.consumer.member import ConsumerMember
from pylogbroker.groups.consumer.partitions import FindTopicId, TopicIdPartition
from pylogbroker.groups.consumer.reconciliation import next_step
from pylogbroker.groups.consumer.states import ConsumerGroupState, ReconciliationState
from pylogbroker.groups.requests import Commit, GroupType, TransactionalCommit

NO_PARTITIONS: Final[frozenset[TopicIdPartition]] = frozenset()


class RecordKind(IntEnum):
    """Kinds of records of a group, in the order in which they are written; the number is the key's version."""

    MEMBER = 5
    EXPRESSION = 16
    GROUP = 3
    TARGET_OF_MEMBER = 7
    TARGET = 6
    CURRENT = 8


@attrs.frozen
class Resolved:
    """Topics that a regular expression matched among those of a version of the cluster's topics."""

    topics: frozenset[str]
    version: int
    resolved_ms: int


@attrs.define(eq=False, repr=False)
class ConsumerGroup(CommittingGroup[ConsumerMember, frozenset[TopicIdPartition]]):
    type = GroupType.CONSUMER
    protocol_type = PROTOCOL_TYPE
    no_target = NO_PARTITIONS
    kinds = RecordKind
    removed_last = RecordKind.EXPRESSION, RecordKind.GROUP

    expressions: dict[str, Resolved] = attrs.field(factory=dict, init=False)
    _holders: dict[TopicIdPartition, str] = attrs.field(factory=dict, init=False)
    _subscribers: Counter[str] = attrs.field(factory=Counter, init=False)  # members by topic
    _users: Counter[str] = attrs.field(factory=Counter, init=False)  # members by regular expression

    # -- state ---------------------------------------------------------------------------------------------------

    @property
    def state(self) -> ConsumerGroupState:
        if self.is_dead:
            return ConsumerGroupState.DEAD
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.target_epoch < self.epoch:
            return ConsumerGroupState.ASSIGNING
        if all(self.is_reconciled(member) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    def is_reconciled(self, member: ConsumerMember) -> bool:
        return member.state is ReconciliationState.STABLE and member.epoch == self.target_epoch

    @property
    def subscribed(self) -> Collection[str]:
        """Names of all topics to which members subscribe; they need not exist."""
        return self._subscribers.keys()

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        resolved = self.expressions.get(member.expression) if member.expression else None
        return member.topics if resolved is None else member.topics | resolved.topics

    def holder(self, partition: TopicIdPartition) -> str | None:
        return self._holders.get(partition)

    @property
    def holders_count(self) -> int:
        """Return the number of partitions that members hold."""
        return len(self._holders)

    # -- what groups of both types have --------------------------------------------------------------------------

    def is_subscribed(self, topic: str) -> bool:
        return topic in self._subscribers

    def check_commit(self, commit: Commit, topic_id: FindTopicId) -> ErrorCode:
        """Check who commits: a member that holds the partitions, or anybody while there are no members."""
        if commit.generation < 0 and not self.members:
            return ErrorCode.NONE
        member = self._committing(commit)
        if isinstance(member, ErrorCode):
            return member
        if member.classic is not None:
            return ErrorCode.NONE if commit.generation == member.epoch else ErrorCode.ILLEGAL_GENERATION
        if not commit.knows_epochs:
            return ErrorCode.UNSUPPORTED_VERSION
        return ErrorCode.NONE if _holds_all(member, commit, topic_id) else ErrorCode.STALE_MEMBER_EPOCH

    def check_transactional(self, commit: TransactionalCommit, topic_id: FindTopicId) -> ErrorCode:
        """Check a commit in a transaction, for whose producer an epoch is a generation."""
        member = self._committing(commit)
        if isinstance(member, ErrorCode):
            return member
        if commit.generation == member.epoch or (member.classic is None and _holds_all(member, commit, topic_id)):
            return ErrorCode.NONE
        return ErrorCode.ILLEGAL_GENERATION

    def _wrong_epoch(self, member: ConsumerMember) -> ErrorCode:
        return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION

    def _topics_read(self) -> Collection[str]:
        return self._subscribers.keys()

    # -- members -------------------------------------------------------------------------------------------------

    def add(self, member: ConsumerMember) -> None:
        super().add(member)
        self._hold(member, member.assigned, member.revoking)
        self._count(member, 1)

    def remove(self, member_id: str) -> None:
        """Remove a member; what it held is free."""
        member = self.members[member_id]
        super().remove(member_id)
        self._release(member)
        self._count(member, -1)

    def subscribe(self, member: ConsumerMember, topics: frozenset[str], expression: str | None) -> bool:
        """Change a subscription; return whether it is another one."""
        if topics == member.topics and expression == member.expression:
            return False
        self._count(member, -1)
        member.topics, member.expression = topics, expression
        self._count(member, 1)
        self.note_member_change(member)
        return True

    def take_place(self, old: ConsumerMember, new: ConsumerMember) -> None:
        """Let a static member take the place of one with the same instance id: its target and its partitions."""
        target = self.target_of(old.member_id)
        new.assigned, new.revoking, new.state = old.assigned, {}, ReconciliationState.STABLE
        self.remove(old.member_id)
        self.add(new)
        self.target[new.member_id] = target
        self._changes[RecordKind.TARGET_OF_MEMBER, new.member_id] = None

    def leave_for_a_moment(self, member: ConsumerMember, epoch: int) -> None:
        """Keep the place of a static member; its client uses no partition."""
        member.epoch = epoch
        self._move(member, member.state, member.assigned, {})

    # -- regular expressions -------------------------------------------------------------------------------------

    def set_resolved(self, expression: str, resolved: Resolved) -> bool:
        """Note what an expression matches; return whether subscriptions have changed."""
        before = self.expressions.get(expression)
        is_new = before is None or before.topics != resolved.topics
        if is_new:
            self._count_expression(expression, -1)
        self.expressions[expression] = resolved
        if is_new:
            self._count_expression(expression, 1)
            self._changes[RecordKind.EXPRESSION, expression] = None
        return is_new and bool(self._users[expression])

    def drop_unused_expressions(self) -> None:
        for expression in [expression for expression in self.expressions if not self._users[expression]]:
            del self.expressions[expression]
            self._changes[RecordKind.EXPRESSION, expression] = None

    @property
    def unresolved(self) -> list[str]:
        return [expression for expression in self._users if expression not in self.expressions]

    @property
    def used_expressions(self) -> Collection[str]:
        return self._users.keys()

    # -- reconciliation ------------------------------------------------------------------------------------------

    def reconcile(
        self, member: ConsumerMember, owned: Collection[TopicIdPartition] | None, target: Collection[TopicIdPartition]
    ) -> bool:
        """Let a member take its next step; return whether its assigned partitions have changed.

        `target` has what the member is to have: a part of its target assignment if it has changed its subscription.
        """

        def is_free(partition: TopicIdPartition) -> bool:
            return self._holders.get(partition, member.member_id) == member.member_id

        step = next_step(member, self.target_epoch, target, owned, is_free)
        if step is None:
            return False
        before = member.assigned.keys()
        same = step.state is member.state and step.epoch == member.epoch and step.revoking == member.revoking
        if same and step.assigned == member.assigned:
            return False
        if step.epoch != member.epoch:
            member.previous_epoch, member.epoch = member.epoch, step.epoch
        self._move(member, step.state, step.assigned, step.revoking)
        return before != step.assigned.keys()

    def _move(
        self,
        member: ConsumerMember,
        state: ReconciliationState,
        assigned: Mapping[TopicIdPartition, int],
        revoking: Mapping[TopicIdPartition, int],
    ) -> None:
        self._release(member)
        member.state = state
        self._hold(member, assigned, revoking)
        self._changes[RecordKind.CURRENT, member.member_id] = None

    def _hold(
        self,
        member: ConsumerMember,
        assigned: Mapping[TopicIdPartition, int],
        revoking: Mapping[TopicIdPartition, int],
    ) -> None:
        """Give partitions to a member, except those that another member holds: a stored state may be damaged."""
        holders, member_id = self._holders, member.member_id
        member.assigned = _held(assigned, holders, member_id)
        member.revoking = _held(revoking, holders, member_id)
        holders.update(dict.fromkeys(member.assigned, member_id))
        holders.update(dict.fromkeys(member.revoking, member_id))

    def _release(self, member: ConsumerMember) -> None:
        for partition in member.holds():
            del self._holders[partition]

    # -- what is to be written -----------------------------------------------------------------------------------

    def note_all(self) -> None:
        """Let everything be written, for a group that was of another kind."""
        self._changes.update(dict.fromkeys(self.all_records()))

    def all_records(self) -> Iterator[RecordKey]:
        yield RecordKind.GROUP, ""
        yield RecordKind.TARGET, ""
        for expression in self.expressions:
            yield RecordKind.EXPRESSION, expression
        for member_id in self.members:
            yield RecordKind.MEMBER, member_id
            yield RecordKind.TARGET_OF_MEMBER, member_id
            yield RecordKind.CURRENT, member_id

    # -- subscriptions -------------------------------------------------------------------------------------------

    def _count(self, member: ConsumerMember, change: int) -> None:
        if member.expression:
            _add(self._users, member.expression, change)
        for topic in self.topics_of(member):
            _add(self._subscribers, topic, change)

    def _count_expression(self, expression: str, change: int) -> None:
        for member in self.members.values():
            if member.expression == expression:
                for topic in self.topics_of(member):
                    _add(self._subscribers, topic, change)


def _holds_all(member: ConsumerMember, commit: Commit, topic_id: FindTopicId) -> bool:
    """Return whether a member of this epoch has held all committed partitions since (KIP-1251).

    A member may commit at its epoch before the last answer: the answer may be on its way.
    """
    if commit.generation >= member.epoch:
        return commit.generation == member.epoch
    ids = {topic: topic_id(topic) for topic in {topic for topic, _ in commit.offsets}}
    for topic, number in commit.offsets:
        key = ids[topic]
        since = None if key is None else member.assignment_epoch((key, number))
        if since is None or commit.generation < since:
            return False
    return True


def _held(
    partitions: Mapping[TopicIdPartition, int], holders: Mapping[TopicIdPartition, str], member_id: str
) -> Mapping[TopicIdPartition, int]:
    if all(holders.get(partition, member_id) == member_id for partition in partitions):
        return partitions
    return {key: since for key, since in partitions.items() if holders.get(key, member_id) == member_id}


def _add(counter: Counter[str], key: str, change: int) -> None:
    counter[key] += change
    if not counter[key]:
        del counter[key]
