"""Members of consumer groups: heartbeats, leaving, timeouts, and target assignments.

A heartbeat has these steps:

    resolve      a regular expression that the group does not know yet: topics that match it
    admit        a new member, or the check of an old one's epoch
    subscribe    another subscription bumps the group's epoch
    assign       an older target assignment than the group's epoch is computed again
    reconcile    the member takes its next step towards its target
    store        the changes are written, and answered when they are stored

The first and fourth step may take a thread; the rest of the heartbeat waits if it needs the result. Target assignments
are computed by `target_computation`, at most once in `group.consumer.assignment.interval.ms`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import attrs

from pylogbroker.coordinators import EventQueue, Reply, Timers, cancel
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.groups.changes import GroupChanges
from pylogbroker.groups.consumer.admission import admit, check_fields
from pylogbroker.groups.consumer.group import ConsumerGroup, Resolved
from pylogbroker.groups.consumer.member import ConsumerMember
from pylogbroker.groups.consumer.port import GroupPort, InvalidExpression, Matches
from pylogbroker.groups.consumer.requests import HeartbeatResult, MemberHeartbeat
from pylogbroker.groups.consumer.states import JOIN_EPOCH, STATIC_LEAVE_EPOCH, ReconciliationState
from pylogbroker.groups.consumer.targets import AssignmentTask, Target, existing_topics, metadata_hash
from pylogbroker.groups.settings import ConsumerGroupSettings
from pylogbroker.groups.target_computation import TargetComputation

_REFRESH_MS_MIN: Final = 10_000
"""Shortest time between two resolutions of a group's expressions because of new topics."""

Answer = Reply[HeartbeatResult]


def _stay(group: ConsumerGroup, now_ms: int) -> bool:
    return False


@attrs.define(eq=False, repr=False)
class ConsumerMemberManager:
    settings: ConsumerGroupSettings
    _events: EventQueue
    _timers: Timers
    _changes: GroupChanges[ConsumerGroup]
    _port: GroupPort
    _assignors: Mapping[str, Any]  # by name, the default one first
    _new_id: Callable[[], str]
    _on_target: Callable[[ConsumerGroup, str], None] = lambda group, assignor: None
    on_removed: Callable[[ConsumerGroup, int], bool] = attrs.field(default=_stay, init=False)
    """Called when a new member was removed or replaced; returns whether the group has become a classic one."""
    _targets: TargetComputation[ConsumerGroup] = attrs.field(init=False)
    _failures: dict[ConsumerGroup, KafkaError] = attrs.field(factory=dict, init=False)  # of the last computation
    _resolving: set[ConsumerGroup] = attrs.field(factory=set, init=False)  # whose expressions are resolved again

    def __attrs_post_init__(self) -> None:
        self._targets = TargetComputation(
            self._events,
            self._timers,
            self._port.compute,
            lambda group: self._port.times_of(group.group_id).assignment_interval_ms,
            lambda group: AssignmentTask.of(group, self._assignor(group), existing_topics(group, self._port)),
            self._take_target,
            self._store_changes,
        )

    # -- heartbeats ----------------------------------------------------------------------------------------------

    def check(self, beat: MemberHeartbeat) -> MemberHeartbeat:
        """Return a heartbeat with a member id; raise KafkaError if it is invalid by itself."""
        check_fields(beat, self._assignors)
        return beat if beat.member_id else attrs.evolve(beat, member_id=self._new_id())

    def resolve(self, beat: MemberHeartbeat, go_on: Callable[[Matches, int], None]) -> None:
        """Call `go_on` with the topics that match the expression of a heartbeat."""
        self._port.resolve([beat.expression or ""], beat.may_see, self._events.as_event(go_on))

    @staticmethod
    def has_new_expression(group: ConsumerGroup | None, beat: MemberHeartbeat) -> bool:
        return bool(beat.expression) and (group is None or beat.expression not in group.expressions)

    @staticmethod
    def check_joining(matches: Matches) -> None:
        """Raise KafkaError if the first member of a new group may not join: its expression is invalid."""
        _check_expressions(matches)

    def heartbeat(
        self, group: ConsumerGroup, beat: MemberHeartbeat, matches: Matches, reply: Answer, now_ms: int
    ) -> None:
        """Handle a heartbeat whose expression is resolved, of a member that does not leave; raise KafkaError."""
        _check_expressions(matches)
        member = admit(group, beat, self.settings.max_size)
        before = member.assigned
        has_changed = self._update(group, member, beat)
        for expression, topics in matches.items():
            if not isinstance(topics, InvalidExpression):
                resolved = Resolved(topics, self._port.topics_version, now_ms)
                has_changed = group.set_resolved(expression, resolved) or has_changed
        if has_changed:
            self.bump(group, now_ms)
            group.drop_unused_expressions()
        self.keep_alive(group, member, now_ms)
        self._refresh_expressions(group, beat, now_ms)
        self.with_target(group, member, partial(self._reconcile, group, member, beat, before, reply), now_ms)

    def leave(self, group: ConsumerGroup, beat: MemberHeartbeat, reply: Answer, now_ms: int) -> None:
        """Let a member leave, for good or, a static one, for a moment; raise KafkaError if there is no such member."""
        member_id = beat.member_id
        if beat.instance_id is not None:
            group.check_static(member_id, beat.instance_id)
        member = group.members.get(member_id)
        if member is None:
            raise KafkaError(f"group {group.group_id!r} has no member {member_id!r}", ErrorCode.UNKNOWN_MEMBER_ID)
        if beat.epoch == STATIC_LEAVE_EPOCH:
            cancel(member.rebalance)
            group.leave_for_a_moment(member, STATIC_LEAVE_EPOCH)
        else:
            self.remove(group, member, now_ms)
        result = HeartbeatResult(ErrorCode.NONE, member_id=member_id, epoch=beat.epoch)
        self._store(group, reply, result, now_ms)

    def _update(self, group: ConsumerGroup, member: ConsumerMember, beat: MemberHeartbeat) -> bool:
        """Take what a heartbeat says of its member; return whether the group has to be assigned again."""
        is_new = member.rebalance_timeout_ms == -1
        before = (member.rack_id, member.rebalance_timeout_ms, member.assignor, member.client_id, member.client_host)
        member.rack_id = beat.rack_id or member.rack_id
        member.assignor = beat.assignor or member.assignor
        if beat.rebalance_timeout_ms is not None:
            member.rebalance_timeout_ms = beat.rebalance_timeout_ms
        member.client_id, member.client_host = beat.client_id, beat.client_host
        if member.classic is not None:
            member.classic = None
            cancel(member.sync)
            group.note_member_change(member)
        after = (member.rack_id, member.rebalance_timeout_ms, member.assignor, member.client_id, member.client_host)
        if after != before:
            group.note_member_change(member)
        assigns_again = is_new or after[0] != before[0] or after[2] != before[2]
        topics = member.topics if beat.topics is None else beat.topics
        expression = member.expression if beat.expression is None else beat.expression or None
        return group.subscribe(member, topics, expression) or assigns_again

    def _reconcile(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        beat: MemberHeartbeat,
        before: Mapping[Any, int],
        reply: Answer,
        now_ms: int,
    ) -> None:
        """Let a member take its step, and answer."""
        if group.is_dead:
            self._events.reply(reply, HeartbeatResult(ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR.meaning))
            return
        if group.members.get(member.member_id) is not member:
            self._events.reply(reply, HeartbeatResult(ErrorCode.UNKNOWN_MEMBER_ID, "the member has left meanwhile"))
            return
        failure = self._failures.get(group)
        if failure is not None and not group.target_epoch:
            self._events.reply(reply, HeartbeatResult(failure.code, failure.detail))
            return
        self.step(group, member, beat.owned, now_ms)
        has_new_assignment = before.keys() != member.assigned.keys()
        gives_assignment = beat.epoch == JOIN_EPOCH or beat.is_full or has_new_assignment
        times = self._port.times_of(group.group_id)
        result = HeartbeatResult(
            ErrorCode.NONE,
            None,
            member.member_id,
            member.epoch,
            times.heartbeat_interval_ms,
            frozenset(member.assigned) if gives_assignment else None,
        )
        self._store(group, reply, result, now_ms)

    def step(self, group: ConsumerGroup, member: ConsumerMember, owned: Any, now_ms: int) -> None:
        """Let a member take its next step; it has its rebalance timeout to revoke what it must."""
        if group.is_reconciled(member) and group.target_epoch == group.epoch:
            return
        state, epoch = member.state, member.epoch
        group.reconcile(member, owned, self._subscribed_part(group, member))
        if member.classic is not None:
            return  # it has other timers
        if member.state is not ReconciliationState.UNREVOKED_PARTITIONS:
            cancel(member.rebalance)
        elif (state, epoch) != (member.state, member.epoch) or member.rebalance is None or not member.rebalance.live:
            self.await_revocation(group, member, now_ms)

    def _subscribed_part(self, group: ConsumerGroup, member: ConsumerMember) -> frozenset[Any]:
        """Return a member's target without topics to which it subscribes no more: a new target may take a while."""
        target = group.target_of(member.member_id)
        if group.target_epoch == group.epoch:
            return target
        shapes = map(self._port.topic, group.topics_of(member))
        subscribed = {shape.topic_id for shape in shapes if shape is not None}
        return frozenset(partition for partition in target if partition[0] in subscribed)

    def _store(self, group: ConsumerGroup, reply: Answer, result: HeartbeatResult, now_ms: int) -> None:
        def stored(error: ErrorCode, later_ms: int) -> None:
            self._events.reply(reply, HeartbeatResult(error, error.meaning) if error else result)

        self._changes.store(group, now_ms, stored)

    # -- timeouts ------------------------------------------------------------------------------------------------

    def keep_alive(self, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> None:
        due = now_ms + self.session_timeout_ms(group, member)
        if member.session is None:
            member.session = self._timers.start(due, partial(self._fence, group, member, "its session has expired"))
        else:
            self._timers.move(member.session, due)

    def session_timeout_ms(self, group: ConsumerGroup, member: ConsumerMember) -> int:
        if member.classic is not None:
            return member.classic.session_timeout_ms
        return self._port.times_of(group.group_id).session_timeout_ms

    def await_revocation(self, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> None:
        cancel(member.rebalance)
        why = "it has not revoked its partitions within its rebalance timeout"
        due = now_ms + max(member.rebalance_timeout_ms, 0)
        member.rebalance = self._timers.start(due, partial(self._fence, group, member, why))

    def _fence(self, group: ConsumerGroup, member: ConsumerMember, why: str, now_ms: int) -> None:
        if group.members.get(member.member_id) is member:
            self._port.member_removed(group.group_id, member.member_id, why)
            self.remove(group, member, now_ms)
            self._store_changes(group, now_ms)

    def fence_later(self, group: ConsumerGroup, member: ConsumerMember, why: str) -> Callable[[int], None]:
        """Return the action of a timer that removes a member."""
        return partial(self._fence, group, member, why)

    def remove(self, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> None:
        """Remove a member; the others get its partitions by the next target assignment."""
        member.stop_timers()
        group.remove(member.member_id)
        group.drop_unused_expressions()
        self.bump(group, now_ms)
        if not self.on_removed(group, now_ms):
            self._targets.begin(group, now_ms)

    def go_on(self, group: ConsumerGroup, now_ms: int) -> None:
        """Start the timers of a loaded group."""
        for member in group.members.values():
            if member.session is None:
                self.keep_alive(group, member, now_ms)
            if member.state is ReconciliationState.UNREVOKED_PARTITIONS and member.classic is None:
                self.await_revocation(group, member, now_ms)
        self.on_topics_changed(group, now_ms)

    def store_again(self, group: ConsumerGroup, now_ms: int) -> None:
        """Write changes that could not be stored, if no heartbeat has done so: the group may have no members."""
        if group.has_changes:
            self._store_changes(group, now_ms)

    def stop(self, group: ConsumerGroup, now_ms: int) -> None:
        """Stop the timers of a group that is unloaded; waiting heartbeats are answered."""
        for member in group.members.values():
            member.stop_timers()
        self._targets.stop(group, now_ms)
        self._failures.pop(group, None)
        self._resolving.discard(group)

    # -- topics --------------------------------------------------------------------------------------------------

    def on_topics_changed(self, group: ConsumerGroup, now_ms: int) -> None:
        """Assign a group again if subscribed topics have been created or deleted, or have new partitions."""
        if group.members and metadata_hash(existing_topics(group, self._port)) != group.metadata_hash:
            self.bump(group, now_ms)
        if group.members:
            self._targets.begin(group, now_ms)
        if group.has_changes:
            self._store_changes(group, now_ms)

    def bump(self, group: ConsumerGroup, now_ms: int) -> None:
        group.metadata_hash = metadata_hash(existing_topics(group, self._port))
        group.bump(now_ms)

    def _refresh_expressions(self, group: ConsumerGroup, beat: MemberHeartbeat, now_ms: int) -> None:
        """Resolve a group's expressions again if topics have come or gone, or it was long ago: access may change."""
        if not group.expressions:
            return
        version, interval_ms = self._port.topics_version, self.settings.expression_refresh_interval_ms
        is_due = group.unresolved or any(
            now_ms - resolved.resolved_ms >= (interval_ms if resolved.version == version else _REFRESH_MS_MIN)
            for resolved in group.expressions.values()
        )
        if is_due and group not in self._resolving:
            self._resolving.add(group)
            done = self._events.as_event(partial(self._resolved, group, version))
            self._port.resolve(list(group.used_expressions), beat.may_see, done)

    def _resolved(self, group: ConsumerGroup, version: int, matches: Matches, now_ms: int) -> None:
        if group not in self._resolving or group.is_dead:
            return
        self._resolving.discard(group)
        has_changed = False
        for expression, topics in matches.items():
            if not isinstance(topics, InvalidExpression) and expression in group.used_expressions:
                has_changed = group.set_resolved(expression, Resolved(topics, version, now_ms)) or has_changed
        if has_changed:
            self.bump(group, now_ms)
            self._targets.begin(group, now_ms)
            self._store_changes(group, now_ms)

    # -- target assignments --------------------------------------------------------------------------------------

    def with_target(
        self, group: ConsumerGroup, member: ConsumerMember, go_on: Callable[[int], None], now_ms: int
    ) -> None:
        """Call `go_on` when a heartbeat may be answered: one that has no epoch yet needs a target assignment."""
        self._targets.begin(group, now_ms)
        if self._targets.is_computing(group) and not (group.target_epoch and member.epoch):
            self._targets.when_computed(group, go_on)
        else:
            go_on(now_ms)

    def _take_target(
        self, group: ConsumerGroup, task: AssignmentTask, outcome: Target | Exception, now_ms: int
    ) -> None:
        if isinstance(outcome, Exception):
            error = outcome if isinstance(outcome, KafkaError) else KafkaError(f"the assignment failed: {outcome!r}")
            self._failures[group] = error
            group.assigned_ms = now_ms
            self._port.assignment_rejected(group.group_id, error.detail)
        else:
            self._failures.pop(group, None)
            group.set_target(task.epoch, outcome, now_ms)
            self._on_target(group, task.assignor.name)

    def _store_changes(self, group: ConsumerGroup, now_ms: int) -> None:
        self._changes.store(group, now_ms, lambda error, later_ms: None)

    def _assignor(self, group: ConsumerGroup) -> Any:
        """Return the assignor that most members name; the first one of the setting if none does."""
        votes: dict[str, int] = {}
        for member in group.members.values():
            if member.assignor is not None and member.assignor in self._assignors:
                votes[member.assignor] = votes.get(member.assignor, 0) + 1
        name = max(votes, key=lambda name: (votes[name], name)) if votes else next(iter(self._assignors))
        return self._assignors[name]

    def assignor_name(self, group: ConsumerGroup) -> str:
        name: str = self._assignor(group).name
        return name


def _check_expressions(matches: Matches) -> None:
    """Raise KafkaError for an invalid regular expression."""
    for expression, topics in matches.items():
        if isinstance(topics, InvalidExpression):
            raise KafkaError(
                f"{expression!r} is not a regular expression that RE2 reads: {topics.why}; see "
                "https://github.com/google/re2/wiki/Syntax",
                ErrorCode.INVALID_REGULAR_EXPRESSION,
            )
