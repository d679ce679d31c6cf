"""Members of share groups: heartbeats, leaving, timeouts, and target assignments.

A heartbeat, by the epoch that it sends; E is the member's epoch, P its previous one:

    epoch    of a member                                                    of nobody
    -----    ---------------------------------------------------------     -----------------
    0        joins again, and gets its assignment                          joins
    E        goes on                                                       UNKNOWN_MEMBER_ID
    P        goes on, and gets its assignment: the answer was lost         UNKNOWN_MEMBER_ID
    -1       leaves                                                        UNKNOWN_MEMBER_ID
    other    FENCED_MEMBER_EPOCH                                           UNKNOWN_MEMBER_ID

Clients send their topics again after an error, and get their assignment again, whether it has changed or not.

A heartbeat's steps:

    subscribe     another subscription bumps the group's epoch
    initialize    partitions of new topics get a state at the share coordinator; then the group's epoch is bumped
    assign        a target assignment that is older than the group's epoch is computed again
    reconcile     the member takes its target
    store         the changes are written, and answered when they are stored

Target assignments are computed one at a time, and at most once in `share.assignment.interval.ms`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Final

import attrs

from pylogbroker.coordinators import EventQueue, Reply, Timers, cancel
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.groups.changes import GroupChanges
from pylogbroker.groups.consumer.partitions import TopicIdPartition
from pylogbroker.groups.consumer.port import TopicShape
from pylogbroker.groups.consumer.targets import metadata_hash
from pylogbroker.groups.settings import ShareGroupSettings
from pylogbroker.groups.share.group import ShareGroup
from pylogbroker.groups.share.member import ShareMember
from pylogbroker.groups.share.port import SharePort
from pylogbroker.groups.share.requests import JOIN_EPOCH, LEAVE_EPOCH, ShareHeartbeat, ShareHeartbeatResult
from pylogbroker.groups.share.states import StateKeeper
from pylogbroker.groups.share.targets import ShareAssignmentTask, Target
from pylogbroker.groups.target_computation import TargetComputation

_SUBSCRIPTION_BYTES_MAX: Final = 512 * 1024
"""Most bytes of topic names in a subscription, which has to fit in a record."""

Answer = Reply[ShareHeartbeatResult]


def check_fields(beat: ShareHeartbeat) -> None:
    """Raise KafkaError for a heartbeat that is invalid by itself."""
    for field, text in (("MemberId", beat.member_id), ("GroupId", beat.group_id), ("RackId", beat.rack_id)):
        if text is not None and not text.strip():
            raise _invalid(f"{field} can't be empty.")
    if beat.epoch < LEAVE_EPOCH:
        raise _invalid(f"MemberEpoch is {beat.epoch}; expected -1 to leave, 0 to join, or the member's epoch")
    if beat.epoch == JOIN_EPOCH and not beat.topics:
        raise _invalid("SubscribedTopicNames must be set in first request.")
    if sum(map(len, beat.topics or ())) > _SUBSCRIPTION_BYTES_MAX:
        raise _invalid("the names of the subscribed topics are too long together; subscribe to fewer")


@attrs.define(eq=False, repr=False)
class ShareMemberManager:
    settings: ShareGroupSettings
    _events: EventQueue
    _timers: Timers
    _changes: GroupChanges[ShareGroup]
    _port: SharePort
    states: StateKeeper = attrs.field(init=False)
    _targets: TargetComputation[ShareGroup] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        port = self._port
        self.states = StateKeeper(
            self.settings.initialize_retry_interval_ms,
            self._events,
            self._timers,
            self._changes,
            port,
            self._on_initialized,
            self._on_forgotten,
        )
        self._targets = TargetComputation(
            self._events,
            self._timers,
            port.compute,
            lambda group: port.times_of(group.group_id).assignment_interval_ms,
            lambda group: ShareAssignmentTask.of(group, self.existing_topics(group)),
            self._take_target,
            self.store_again,
        )

    # -- heartbeats ----------------------------------------------------------------------------------------------

    def heartbeat(self, group: ShareGroup, beat: ShareHeartbeat, reply: Answer, now_ms: int) -> None:
        """Handle a heartbeat of a member that does not leave; raise KafkaError."""
        member = self._admit(group, beat)
        before = member.assigned
        if self._update(group, member, beat):
            self.bump(group, now_ms)
        self.keep_alive(group, member, now_ms)
        self.states.note_missing(group, self.existing_topics(group))
        gives_assignment = beat.topics is not None or beat.epoch != member.epoch  # it joins, or may have lost an answer
        answer = partial(self._reconcile, group, member, before, gives_assignment, reply)
        self.states.begin(group, now_ms)
        if beat.epoch == JOIN_EPOCH:  # with the partitions of new topics, or the client waits for its next heartbeat
            self.states.when_settled(group, partial(self._with_target, group, member, answer), now_ms)
        else:
            self._with_target(group, member, answer, now_ms)

    def leave(self, group: ShareGroup, beat: ShareHeartbeat, reply: Answer, now_ms: int) -> None:
        self.remove(group, self._find(group, beat.member_id), now_ms)
        result = ShareHeartbeatResult(ErrorCode.NONE, member_id=beat.member_id, epoch=LEAVE_EPOCH)
        self._store(group, reply, result, now_ms)

    def _admit(self, group: ShareGroup, beat: ShareHeartbeat) -> ShareMember:
        """Return the member that a heartbeat is of; a new one if it joins. Raise KafkaError if it may not go on."""
        if beat.member_id not in group.members and beat.epoch == JOIN_EPOCH:
            if len(group.members) >= self.settings.max_size:
                raise KafkaError(
                    f"share group {group.group_id!r} has {len(group.members)} members, the most that"
                    " group.share.max.size allows",
                    ErrorCode.GROUP_MAX_SIZE_REACHED,
                )
            member = ShareMember(beat.member_id)
            group.add(member)
            return member
        member = self._find(group, beat.member_id)
        if beat.epoch not in (JOIN_EPOCH, member.epoch, member.previous_epoch):
            raise KafkaError(
                f"member {member.member_id!r} has the epoch {member.epoch}, not {beat.epoch}; stop using all partitions"
                " and join again",
                ErrorCode.FENCED_MEMBER_EPOCH,
            )
        return member

    @staticmethod
    def _find(group: ShareGroup, member_id: str) -> ShareMember:
        member = group.members.get(member_id)
        if member is None:
            text = f"Member {member_id} is not a member of group {group.group_id}."
            raise KafkaError(text, ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    def _update(self, group: ShareGroup, member: ShareMember, beat: ShareHeartbeat) -> bool:
        """Take what a heartbeat says of its member; return whether the group has to be assigned again."""
        before = (member.rack_id, member.client_id, member.client_host)
        member.rack_id = beat.rack_id or member.rack_id
        member.client_id, member.client_host = beat.client_id, beat.client_host
        if (member.rack_id, member.client_id, member.client_host) != before:
            group.note_member_change(member)
        return group.subscribe(member, member.topics if beat.topics is None else beat.topics)

    def _with_target(self, group: ShareGroup, member: ShareMember, answer: Callable[[int], None], now_ms: int) -> None:
        """Call `answer`, now or when a member without an epoch has a target assignment."""
        if not group.is_dead:
            self._targets.begin(group, now_ms)
        if self._targets.is_computing(group) and not (group.target_epoch and member.epoch):
            self._targets.when_computed(group, answer)
        else:
            answer(now_ms)

    def _reconcile(
        self,
        group: ShareGroup,
        member: ShareMember,
        before: Collection[TopicIdPartition],
        gives_assignment: bool,
        reply: Answer,
        now_ms: int,
    ) -> None:
        """Let a member take its target, and answer."""
        if group.is_dead:
            error = ErrorCode.NOT_COORDINATOR
            self._events.reply(reply, ShareHeartbeatResult(error, error.meaning))
            return
        if group.members.get(member.member_id) is not member:
            self._events.reply(
                reply, ShareHeartbeatResult(ErrorCode.UNKNOWN_MEMBER_ID, "the member has left meanwhile")
            )
            return
        target = self._subscribed_part(group, member)
        if (member.epoch, member.assigned) != (group.target_epoch, target):
            group.move(member, group.target_epoch, target)
        result = ShareHeartbeatResult(
            ErrorCode.NONE,
            None,
            member.member_id,
            member.epoch,
            self._port.times_of(group.group_id).heartbeat_interval_ms,
            member.assigned if gives_assignment or member.assigned != before else None,
        )
        self._store(group, reply, result, now_ms)

    def _subscribed_part(self, group: ShareGroup, member: ShareMember) -> frozenset[TopicIdPartition]:
        """Return a member's target without topics to which it subscribes no more: a new target may take a while."""
        target = group.target_of(member.member_id)
        if group.target_epoch == group.epoch:
            return target
        shapes = map(self._port.topic, member.topics)
        subscribed = {shape.topic_id for shape in shapes if shape is not None}
        return frozenset(partition for partition in target if partition[0] in subscribed)

    def _store(self, group: ShareGroup, reply: Answer, result: ShareHeartbeatResult, now_ms: int) -> None:
        def stored(error: ErrorCode, later_ms: int) -> None:
            self._events.reply(reply, ShareHeartbeatResult(error, error.meaning) if error else result)

        self._changes.store(group, now_ms, stored)

    # -- timeouts ------------------------------------------------------------------------------------------------

    def keep_alive(self, group: ShareGroup, member: ShareMember, now_ms: int) -> None:
        due = now_ms + self._port.times_of(group.group_id).session_timeout_ms
        if member.session is None:
            member.session = self._timers.start(due, partial(self._expire, group, member))
        else:
            self._timers.move(member.session, due)

    def _expire(self, group: ShareGroup, member: ShareMember, now_ms: int) -> None:
        if group.members.get(member.member_id) is member:
            self._port.member_removed(group.group_id, member.member_id, "its session has expired")
            self.remove(group, member, now_ms)
            self.store_again(group, now_ms)

    def remove(self, group: ShareGroup, member: ShareMember, now_ms: int) -> None:
        """Remove a member; the others get its partitions by the next target assignment."""
        cancel(member.session)
        group.remove(member.member_id)
        self.bump(group, now_ms)
        if group.members:
            self._targets.begin(group, now_ms)
        else:
            group.set_target(group.epoch, {}, 0)

    # -- shards and topics ---------------------------------------------------------------------------------------

    def go_on(self, group: ShareGroup, now_ms: int) -> None:
        """Start the timers of a loaded group, and finish what was begun with its states."""
        for member in group.members.values():
            if member.session is None:
                self.keep_alive(group, member, now_ms)
        self.states.go_on(group, now_ms)
        self.on_topics_changed(group, now_ms)

    def store_again(self, group: ShareGroup, now_ms: int) -> None:
        """Write changes that nobody waits for, or that could not be stored before."""
        if group.has_changes:
            self._changes.store(group, now_ms, lambda error, later_ms: None)

    def stop(self, group: ShareGroup, now_ms: int) -> None:
        """Stop the timers of a group that is unloaded or deleted; waiting heartbeats are answered."""
        for member in group.members.values():
            cancel(member.session)
        self.states.stop(group, now_ms)
        self._targets.stop(group, now_ms)

    def existing_topics(self, group: ShareGroup) -> dict[str, TopicShape]:
        shapes = ((name, self._port.topic(name)) for name in group.subscribed)
        return {name: shape for name, shape in shapes if shape is not None}

    def on_topics_changed(self, group: ShareGroup, now_ms: int) -> None:
        """Assign a group again if subscribed topics have been created or deleted, or have new partitions."""
        self.states.forget_deleted(group, now_ms)
        if group.members:
            topics = self.existing_topics(group)
            self.states.note_missing(group, topics)
            if metadata_hash(topics) != group.metadata_hash:
                self.bump(group, now_ms)
            self._targets.begin(group, now_ms)
        self.store_again(group, now_ms)
        self.states.begin(group, now_ms)

    def bump(self, group: ShareGroup, now_ms: int) -> None:
        group.metadata_hash = metadata_hash(self.existing_topics(group))
        group.bump(now_ms)

    def _on_initialized(self, group: ShareGroup, now_ms: int) -> None:
        """Assign partitions that have got a state."""
        if group.members:
            self.bump(group, now_ms)
            self._targets.begin(group, now_ms)

    def _on_forgotten(self, group: ShareGroup, now_ms: int) -> None:
        """Let topics whose states were deleted get new ones if members have subscribed meanwhile."""
        if group.members:
            self.states.note_missing(group, self.existing_topics(group))
            self.store_again(group, now_ms)
            self.states.begin(group, now_ms)

    def _take_target(
        self, group: ShareGroup, task: ShareAssignmentTask, outcome: Target | Exception, now_ms: int
    ) -> None:
        if isinstance(outcome, Exception):
            group.assigned_ms = now_ms
            self._port.assignment_rejected(group.group_id, repr(outcome))
        else:
            group.set_target(task.epoch, outcome, now_ms)


def _invalid(text: str) -> KafkaError:
    return KafkaError(text, ErrorCode.INVALID_REQUEST)
