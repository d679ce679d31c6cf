"""A group of Kafka Streams: members, topology, epochs, target assignment, and who has which task.

It has no I/O, no clock and no timers. Each change is noted, as by `ConsumerGroup`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from functools import partial
from typing import Final

import attrs

from pylogbroker.coordinators import TopicPartition
from pylogbroker.errors import ErrorCode
from pylogbroker.groups.changing_group import RecordedGroup
from pylogbroker.groups.consumer.partitions import FindTopicId
from pylogbroker.groups.offsets import GroupOffsets
from pylogbroker.groups.requests import Commit, GroupDescription, GroupOverview, GroupType, TransactionalCommit
from pylogbroker.groups.streams.configuration import (
    NO_TOPOLOGY,
    NOT_CONFIGURED,
    ConfiguredTopology,
    GroupTopology,
    sources_of,
)
from pylogbroker.groups.streams.member import StreamsMember
from pylogbroker.groups.streams.reconciliation import TaskStep, next_step
from pylogbroker.groups.streams.states import FIRST_EPOCH, STATIC_LEAVE_EPOCH, StreamsGroupState, TaskState
from pylogbroker.groups.streams.tasks import NO_TASKS, Task, Tasks

PROTOCOL_TYPE: Final = "streams"
NOT_VALIDATED: Final = -1


class StreamsRecordKind(IntEnum):
    """Kinds of records of a group, in the order in which they are written; the number is the key's version."""

    MEMBER = 19
    TOPOLOGY = 23
    GROUP = 17
    TARGET_OF_MEMBER = 21
    TARGET = 20
    CURRENT = 22


_OF_MEMBERS: Final = (StreamsRecordKind.MEMBER, StreamsRecordKind.TARGET_OF_MEMBER, StreamsRecordKind.CURRENT)
_REMOVAL_ORDER: Final = {
    StreamsRecordKind.CURRENT: 0,
    StreamsRecordKind.TARGET_OF_MEMBER: 1,
    StreamsRecordKind.TARGET: 2,
    StreamsRecordKind.MEMBER: 3,
    StreamsRecordKind.GROUP: 4,
    StreamsRecordKind.TOPOLOGY: 5,
}
_ORDER: Final = {kind: place for place, kind in enumerate(StreamsRecordKind)}


@attrs.define(eq=False, repr=False)
class StreamsGroup(RecordedGroup):
    """`validated_epoch` is that of the topology whose topics are all there; -1 if some are missing.

    `assignment_settings` are those of the group's last epoch. `shutdown_by` is the member that has asked all members to
    shut down, empty if none has; it is not stored. `description_epochs` are Kafka's, of topology descriptions.
    """

    group_id: str
    partition: int
    since: int  # ms when the epoch was bumped last
    epoch: int = 0
    target_epoch: int = 0
    assigned_ms: int = 0  # when the target assignment was computed last; 0 if never
    metadata_hash: int = 0
    validated_epoch: int = NOT_VALIDATED
    assignment_settings: Mapping[str, str] = attrs.field(factory=dict)
    description_epochs: tuple[int, int] = (-1, -1)
    is_dead: bool = False
    topology: GroupTopology = NO_TOPOLOGY
    configured: ConfiguredTopology = attrs.field(default=NOT_CONFIGURED, init=False)
    members: dict[str, StreamsMember] = attrs.field(factory=dict, init=False)
    static: dict[str, str] = attrs.field(factory=dict, init=False)  # instance id: member id
    target: dict[str, Tasks] = attrs.field(factory=dict, init=False)
    offsets: GroupOffsets = attrs.field(factory=GroupOffsets)
    shutdown_by: str = attrs.field(default="", init=False)
    endpoint_epoch: int = attrs.field(default=-1, init=False)
    _owners: dict[Task, str] = attrs.field(factory=dict, init=False)  # member ids by active task
    _copiers: dict[Task, set[str]] = attrs.field(factory=dict, init=False)  # of standby and warm-up tasks
    kinds_of_members = _OF_MEMBERS
    order = _ORDER
    removal_order = _REMOVAL_ORDER

    # -- state ---------------------------------------------------------------------------------------------------

    @property
    def state(self) -> StreamsGroupState:
        if self.is_dead:
            return StreamsGroupState.DEAD
        if not self.members:
            return StreamsGroupState.EMPTY
        if self.topology.epoch != self.validated_epoch or not self.has_topology:
            return StreamsGroupState.NOT_READY
        if self.target_epoch < self.epoch:
            return StreamsGroupState.ASSIGNING
        if all(self.is_reconciled(member) for member in self.members.values()):
            return StreamsGroupState.STABLE
        return StreamsGroupState.RECONCILING

    def is_reconciled(self, member: StreamsMember) -> bool:
        return member.state is TaskState.STABLE and member.epoch == self.target_epoch

    @property
    def is_empty(self) -> bool:
        return not (self.members or self.is_dead)

    def target_of(self, member_id: str) -> Tasks:
        return self.target.get(member_id, NO_TASKS)

    @property
    def has_topology(self) -> bool:
        return bool(self.topology.subtopologies)

    # -- what groups of all types have ---------------------------------------------------------------------------

    @property
    def type(self) -> GroupType:
        return GroupType.STREAMS

    @property
    def has_pending(self) -> bool:
        return False

    @property
    def consumes_partitions(self) -> bool:
        return True

    def is_subscribed(self, topic: str) -> bool:
        return bool(self.members) and topic in self.topology.read_topics()

    def die(self, now_ms: int) -> None:
        self.is_dead = True

    def check_commit(self, commit: Commit, topic_id: FindTopicId) -> ErrorCode:
        """Check who commits: a member that has the tasks, or anybody while there are no members."""
        if commit.generation < 0 and not self.members:
            return ErrorCode.NONE
        member = self._committing(commit)
        if isinstance(member, ErrorCode):
            return member
        if not commit.knows_epochs:
            return ErrorCode.UNSUPPORTED_VERSION
        return ErrorCode.NONE if self._has_all(member, commit) else ErrorCode.STALE_MEMBER_EPOCH

    def check_transactional(self, commit: TransactionalCommit, topic_id: FindTopicId) -> ErrorCode:
        """Check a commit in a transaction, for whose producer an epoch is a generation."""
        member = self._committing(commit)
        if isinstance(member, ErrorCode):
            return member
        return ErrorCode.NONE if self._has_all(member, commit) else ErrorCode.ILLEGAL_GENERATION

    def check_reader(self, member_id: str | None, epoch: int) -> ErrorCode:
        """Check who fetches offsets; without member id and epoch it is nobody."""
        if epoch < 0 and not member_id:
            return ErrorCode.NONE
        member = self.members.get(member_id or "")
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if epoch == member.epoch else ErrorCode.STALE_MEMBER_EPOCH

    def _committing(self, commit: Commit) -> StreamsMember | ErrorCode:
        if commit.instance_id is not None and self.static.get(commit.instance_id, commit.member_id) != commit.member_id:
            return ErrorCode.FENCED_INSTANCE_ID
        return self.members.get(commit.member_id, ErrorCode.UNKNOWN_MEMBER_ID)

    def _has_all(self, member: StreamsMember, commit: Commit) -> bool:
        """Return whether a member of this epoch has had the tasks of all committed partitions since (KIP-1251).

        A member may commit at its epoch before the last answer: the answer may be on its way.
        """
        if commit.generation >= member.epoch:
            return commit.generation == member.epoch
        readers: dict[str, list[str]] = {}
        for subtopology in self.topology.subtopologies:
            for topic in sources_of(subtopology):
                readers.setdefault(topic, []).append(subtopology.subtopology_id)
        for topic, number in commit.offsets:
            since = [member.since.get((name, number)) for name in readers.get(topic, ())]
            if not any(epoch is not None and epoch <= commit.generation for epoch in since):
                return False
        return True

    def expired_offsets(self, now_ms: int, retention_ms: int) -> list[TopicPartition]:
        """Offsets expire after their commit, or after the last member has left, if no member reads the topic."""
        read = self.topology.read_topics() if self.members else set()
        since = 0 if self.members else self.since
        return self.offsets.expired(now_ms, retention_ms, lambda offset: max(since, offset.committed), read)

    def describe(self) -> GroupDescription:
        """Return what DescribeGroups has: only StreamsGroupDescribe describes these groups."""
        return GroupDescription(ErrorCode.NONE, self.group_id, StreamsGroupState.DEAD.value, type=self.type)

    def overview(self) -> GroupOverview:
        return GroupOverview(self.group_id, PROTOCOL_TYPE, self.state.value, self.type)

    # -- members -------------------------------------------------------------------------------------------------

    def add(self, member: StreamsMember) -> None:
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static[member.instance_id] = member.member_id
        self._hold(member, member.assigned, member.revoking)
        self._note_member(member.member_id)

    def remove(self, member_id: str) -> None:
        """Remove a member; its tasks are free."""
        member = self.members.pop(member_id)
        if member.instance_id is not None and self.static.get(member.instance_id) == member_id:
            del self.static[member.instance_id]
        self._release(member)
        self.target.pop(member_id, None)
        self._note_member(member_id)
        if not self.members:
            self.shutdown_by = ""

    def note_member_change(self, member: StreamsMember) -> None:
        """Let the metadata of a member be written."""
        self._changes[StreamsRecordKind.MEMBER, member.member_id] = None

    def take_place(self, old: StreamsMember, new: StreamsMember) -> None:
        """Let a static member take the place of one with the same instance id: its target and its tasks."""
        target = self.target_of(old.member_id)
        new.assigned, new.since, new.state = old.assigned, old.since, TaskState.STABLE
        self.remove(old.member_id)
        self.add(new)
        self.target[new.member_id] = target

    def leave_for_a_moment(self, member: StreamsMember) -> None:
        """Keep the place of a static member; its client uses no task."""
        member.epoch = STATIC_LEAVE_EPOCH
        self._move(member, member.state, member.assigned, NO_TASKS)

    # -- topology, epochs and targets ----------------------------------------------------------------------------

    def set_topology(self, topology: GroupTopology) -> None:
        self.topology, self.configured = topology, NOT_CONFIGURED
        self._changes[StreamsRecordKind.TOPOLOGY, ""] = None

    def bump(self, now_ms: int) -> None:
        self.epoch = self.epoch + 1 if self.epoch else FIRST_EPOCH
        self.since = now_ms
        self._changes[StreamsRecordKind.GROUP, ""] = None

    def set_target(self, epoch: int, target: Mapping[str, Tasks], now_ms: int) -> None:
        """Set the target assignment of an epoch; members that have left meanwhile have none."""
        for member_id in self.members:
            tasks = target.get(member_id, NO_TASKS)
            if tasks != self.target_of(member_id) or member_id not in self.target:
                self.target[member_id] = tasks
                self._changes[StreamsRecordKind.TARGET_OF_MEMBER, member_id] = None
        self.target_epoch, self.assigned_ms = epoch, now_ms
        self._changes[StreamsRecordKind.TARGET, ""] = None

    # -- reconciliation ------------------------------------------------------------------------------------------

    def reconcile(self, member: StreamsMember, owned: Tasks | None, epoch: int, target: Tasks) -> bool:
        """Let a member take its next step towards a target; return whether its assigned tasks have changed."""
        step = next_step(
            member,
            epoch,
            target,
            owned,
            partial(self._is_free, member),
            partial(self._is_free_to_copy, member),
        )
        if step is None or step == TaskStep(member.state, member.epoch, member.assigned, member.revoking):
            return False
        before = member.assigned
        if step.epoch != member.epoch:
            member.previous_epoch, member.epoch = member.epoch, step.epoch
        self._move(member, step.state, step.assigned, step.revoking)
        return before != step.assigned

    def _is_free(self, member: StreamsMember, task: Task) -> bool:
        return self._owners.get(task, member.member_id) == member.member_id and not self._copied_beside(member, task)

    def _is_free_to_copy(self, member: StreamsMember, task: Task) -> bool:
        owner = self._owners.get(task, member.member_id)
        return not self._is_beside(member, owner) and not self._copied_beside(member, task)

    def _copied_beside(self, member: StreamsMember, task: Task) -> bool:
        return any(self._is_beside(member, other) for other in self._copiers.get(task, ()))

    def _is_beside(self, member: StreamsMember, other_id: str) -> bool:
        """Return whether another member is in the same process."""
        return other_id != member.member_id and self.members[other_id].process_id == member.process_id

    def _move(self, member: StreamsMember, state: TaskState, assigned: Tasks, revoking: Tasks) -> None:
        self._release(member)
        member.state = state
        self._hold(member, assigned, revoking)
        self._changes[StreamsRecordKind.CURRENT, member.member_id] = None

    def _hold(self, member: StreamsMember, assigned: Tasks, revoking: Tasks) -> None:
        """Give tasks to a member, except active ones that another member has: a stored state may be damaged."""
        owners, member_id = self._owners, member.member_id
        taken = frozenset(
            task for task in (*assigned.active, *revoking.active) if owners.get(task, member_id) != member_id
        )
        if taken:
            assigned, revoking = assigned - Tasks(taken), revoking - Tasks(taken)
        member.assigned, member.revoking = assigned, revoking
        active = assigned.active | revoking.active
        since = member.since
        member.since = {task: since.get(task, member.epoch) for task in active}
        owners.update(dict.fromkeys(active, member_id))
        for task in (*assigned.passive, *revoking.passive):
            self._copiers.setdefault(task, set()).add(member_id)

    def _release(self, member: StreamsMember) -> None:
        holds = member.holds()
        for task in holds.active:
            del self._owners[task]
        for task in {*holds.passive}:
            copiers = self._copiers[task]
            copiers.discard(member.member_id)
            if not copiers:
                del self._copiers[task]

    # -- what is to be written -----------------------------------------------------------------------------------

    def note_all(self) -> None:
        """Let everything be written."""
        for kind in (StreamsRecordKind.GROUP, StreamsRecordKind.TARGET, StreamsRecordKind.TOPOLOGY):
            self._changes[kind, ""] = None
        for member_id in self.members:
            self._note_member(member_id)
