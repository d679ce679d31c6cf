"""A group of Kafka Streams: members, topology, epochs, target assignment, and who has which task.

It has no I/O, no clock and no timers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import IntEnum
from functools import partial
from typing import Final

import attrs

from pylogbroker.errors import ErrorCode
from pylogbroker.groups.assigned_group import CommittingGroup
from pylogbroker.groups.consumer.partitions import FindTopicId
from pylogbroker.groups.requests import Commit, GroupType, TransactionalCommit
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


@attrs.define(eq=False, repr=False)
class StreamsGroup(CommittingGroup[StreamsMember, Tasks]):
    """`validated_epoch` is that of the topology whose topics are all there; -1 if some are missing.

    `assignment_settings` are those of the group's last epoch. `shutdown_by` is the member that has asked all members to
    shut down, empty if none has; it is not stored. `description_epochs` are Kafka's, of topology descriptions.
    """

    type = GroupType.STREAMS
    protocol_type = PROTOCOL_TYPE
    no_target = NO_TASKS
    first_epoch = FIRST_EPOCH
    kinds = StreamsRecordKind
    removed_last = StreamsRecordKind.GROUP, StreamsRecordKind.TOPOLOGY

    validated_epoch: int = NOT_VALIDATED
    assignment_settings: Mapping[str, str] = attrs.field(factory=dict)
    description_epochs: tuple[int, int] = (-1, -1)
    topology: GroupTopology = NO_TOPOLOGY
    configured: ConfiguredTopology = attrs.field(default=NOT_CONFIGURED, init=False)
    shutdown_by: str = attrs.field(default="", init=False)
    endpoint_epoch: int = attrs.field(default=-1, init=False)
    _owners: dict[Task, str] = attrs.field(factory=dict, init=False)  # member ids by active task
    _copiers: dict[Task, set[str]] = attrs.field(factory=dict, init=False)  # of standby and warm-up tasks

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
    def has_topology(self) -> bool:
        return bool(self.topology.subtopologies)

    # -- what groups of all types have ---------------------------------------------------------------------------

    def is_subscribed(self, topic: str) -> bool:
        return bool(self.members) and topic in self.topology.read_topics()

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

    def _topics_read(self) -> Collection[str]:
        return self.topology.read_topics() if self.members else ()

    # -- members -------------------------------------------------------------------------------------------------

    def add(self, member: StreamsMember) -> None:
        super().add(member)
        self._hold(member, member.assigned, member.revoking)

    def remove(self, member_id: str) -> None:
        """Remove a member; its tasks are free."""
        member = self.members[member_id]
        super().remove(member_id)
        self._release(member)
        if not self.members:
            self.shutdown_by = ""

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

    # -- topology ------------------------------------------------------------------------------------------------

    def set_topology(self, topology: GroupTopology) -> None:
        self.topology, self.configured = topology, NOT_CONFIGURED
        self._changes[StreamsRecordKind.TOPOLOGY, ""] = None

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
