"""Members of groups of Kafka Streams: heartbeats, leaving, timeouts, and target assignments.

A heartbeat has these steps:

    check        the topology of a joining member is that of the group, or older
    admit        a new member, or the check of an old one's epoch
    update       other metadata of the member, or other settings, bump the group's epoch
    configure    the topology is compared with the cluster's topics; a change bumps the group's epoch
    assign       an older target assignment than the group's epoch is computed again
    reconcile    the member takes its next step towards its target
    store        the changes are written, and answered when they are stored

The first assignment of a group without members waits for `streams.initial.rebalance.delay.ms`, because an application
starts all its threads at once. Later ones are computed at most once in `streams.assignment.interval.ms`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import attrs

from pylogbroker.coordinators import EventQueue, Reply, Timer, Timers, cancel
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.groups.changes import GroupChanges
from pylogbroker.groups.consumer.targets import metadata_hash
from pylogbroker.groups.settings import StreamsGroupLimits
from pylogbroker.groups.streams.admission import admit, find_leaving
from pylogbroker.groups.streams.configuration import NOT_CONFIGURED, configure
from pylogbroker.groups.streams.endpoints import partitions_by_endpoint
from pylogbroker.groups.streams.group import NOT_VALIDATED, StreamsGroup
from pylogbroker.groups.streams.member import StreamsMember
from pylogbroker.groups.streams.port import StreamsPort, StreamsSettings
from pylogbroker.groups.streams.requests import StreamsHeartbeat, StreamsHeartbeatResult
from pylogbroker.groups.streams.states import JOIN_EPOCH, STATIC_LEAVE_EPOCH, UNASSIGNED_EPOCH, StatusCode, TaskState
from pylogbroker.groups.streams.targets import StreamsTarget, TaskAssignment
from pylogbroker.groups.streams.tasks import NO_TASKS, Task, Tasks
from pylogbroker.groups.target_computation import TargetComputation

Answer = Reply[StreamsHeartbeatResult]


@attrs.define(eq=False, repr=False)
class StreamsMemberManager:
    limits: StreamsGroupLimits
    _events: EventQueue
    _timers: Timers
    _changes: GroupChanges[StreamsGroup]
    _port: StreamsPort
    _targets: TargetComputation[StreamsGroup] = attrs.field(init=False)
    _delays: dict[StreamsGroup, Timer] = attrs.field(factory=dict, init=False)  # of first assignments

    def __attrs_post_init__(self) -> None:
        self._targets = TargetComputation(
            self._events,
            self._timers,
            self._port.compute,
            lambda group: self.settings_of(group).assignment_interval_ms,
            lambda group: TaskAssignment.of(group, self.settings_of(group)),
            self._take_target,
            self.store_again,
        )

    def settings_of(self, group: StreamsGroup) -> StreamsSettings:
        return self._port.settings_of(group.group_id)

    # -- heartbeats ----------------------------------------------------------------------------------------------

    def heartbeat(self, group: StreamsGroup, beat: StreamsHeartbeat, reply: Answer, now_ms: int) -> None:
        """Handle a heartbeat of a member that does not leave; raise KafkaError."""
        _check_same_topology(group, beat)
        is_first = not group.members
        member = admit(group, beat, self.limits.max_size)
        _check_tasks(group, beat.owned)
        before = member.assigned
        has_changed = _update(group, member, beat)
        if beat.topology is not None and _replaces_topology(group, beat):
            group.set_topology(beat.topology)
            has_changed = True
        settings = self.settings_of(group)
        if settings.of_assignment != group.assignment_settings:
            group.assignment_settings = settings.of_assignment
            has_changed = True
        if group.configured is NOT_CONFIGURED:
            has_changed = self._configure(group) or has_changed
        _take_offsets(group, member, beat)
        if has_changed:
            group.bump(now_ms)
        if is_first:
            self._delay(group, settings, now_ms)
        self.keep_alive(group, member, now_ms)
        if beat.shuts_down and not group.shutdown_by:
            group.shutdown_by = member.member_id
        self._with_target(group, member, partial(self._reconcile, group, member, beat, before, reply), now_ms)

    def leave(self, group: StreamsGroup, beat: StreamsHeartbeat, reply: Answer, now_ms: int) -> None:
        """Let a member leave, for good or, a static one, for a moment; raise KafkaError if there is no such member."""
        member = find_leaving(group, beat)
        if beat.shuts_down and not group.shutdown_by:
            group.shutdown_by = member.member_id
        if beat.epoch == STATIC_LEAVE_EPOCH:
            cancel(member.rebalance)
            group.leave_for_a_moment(member)
        else:
            self.remove(group, member, now_ms)
        result = StreamsHeartbeatResult(ErrorCode.NONE, member_id=beat.member_id, epoch=beat.epoch)
        self._store(group, reply, result, now_ms)

    def _reconcile(
        self,
        group: StreamsGroup,
        member: StreamsMember,
        beat: StreamsHeartbeat,
        before: Tasks,
        reply: Answer,
        now_ms: int,
    ) -> None:
        """Let a member take its step, and answer."""
        if group.is_dead:
            error = ErrorCode.NOT_COORDINATOR
            self._events.reply(reply, StreamsHeartbeatResult(error, error.meaning))
            return
        if group.members.get(member.member_id) is not member:
            left = StreamsHeartbeatResult(ErrorCode.UNKNOWN_MEMBER_ID, "the member has left meanwhile")
            self._events.reply(reply, left)
            return
        self._step(group, member, beat.owned, now_ms)
        has_new_tasks = member.assigned != before
        gives_tasks = beat.epoch == JOIN_EPOCH or beat.is_full or has_new_tasks
        if has_new_tasks and member.endpoint is not None:
            group.endpoint_epoch += 1
        settings = self.settings_of(group)
        has_endpoints = group.endpoint_epoch != beat.endpoint_epoch
        result = StreamsHeartbeatResult(
            ErrorCode.NONE,
            None,
            member.member_id,
            member.epoch,
            settings.heartbeat_interval_ms,
            settings.recovery_lag,
            settings.offset_interval_ms,
            tuple(self._statuses(group, member, settings)),
            member.assigned if gives_tasks else None,
            group.endpoint_epoch,
            partitions_by_endpoint(group, self._port) if has_endpoints else None,
            group.configured.missing,
        )
        self._store(group, reply, result, now_ms)

    def _step(self, group: StreamsGroup, member: StreamsMember, owned: Tasks | None, now_ms: int) -> None:
        """Let a member take its next step; it has its rebalance timeout to revoke what it must."""
        state, epoch = member.state, member.epoch
        target = NO_TASKS if self._is_delayed(group) else group.target_of(member.member_id)
        group.reconcile(member, owned, max(UNASSIGNED_EPOCH, group.target_epoch), target)
        if member.state is not TaskState.UNREVOKED_TASKS:
            cancel(member.rebalance)
        elif (state, epoch) != (member.state, member.epoch) or member.rebalance is None or not member.rebalance.live:
            self._await_revocation(group, member, now_ms)

    def _statuses(
        self, group: StreamsGroup, member: StreamsMember, settings: StreamsSettings
    ) -> list[tuple[StatusCode, str]]:
        statuses = []
        if member.topology_epoch < group.topology.epoch:
            statuses.append(
                (
                    StatusCode.STALE_TOPOLOGY,
                    f"The member's topology epoch {member.topology_epoch} is behind the group's topology epoch"
                    f" {group.topology.epoch}.",
                )
            )
        if self._is_delayed(group):
            delayed = "Assignment delayed due to the configured initial rebalance delay."
            statuses.append((StatusCode.ASSIGNMENT_DELAYED, delayed))
        if group.configured.problem is not None:
            failure = self._port.creation_failure(group.group_id) if group.configured.missing else ""
            detail = f"{group.configured.detail}; creation failed: {failure}" if failure else group.configured.detail
            statuses.append((group.configured.problem, detail))
        missing = [key for key in settings.tag_keys if key not in member.client_tags]
        if missing:
            statuses.append(
                (
                    StatusCode.MISSING_CLIENT_TAGS,
                    f"Missing required client tags for rack-aware standby assignment: {', '.join(missing)}. Configure"
                    " them via 'client.tag.<tagKey>' in your Streams config.",
                )
            )
        if group.shutdown_by:
            statuses.append(
                (
                    StatusCode.SHUTDOWN_APPLICATION,
                    f"Streams group member {group.shutdown_by} encountered a fatal error and requested a shutdown for"
                    " the entire application.",
                )
            )
        return statuses

    def _store(self, group: StreamsGroup, reply: Answer, result: StreamsHeartbeatResult, now_ms: int) -> None:
        def stored(error: ErrorCode, later_ms: int) -> None:
            self._events.reply(reply, StreamsHeartbeatResult(error, error.meaning) if error else result)

        self._changes.store(group, now_ms, stored)

    # -- timeouts ------------------------------------------------------------------------------------------------

    def keep_alive(self, group: StreamsGroup, member: StreamsMember, now_ms: int) -> None:
        due = now_ms + self.settings_of(group).session_timeout_ms
        if member.session is None:
            member.session = self._timers.start(due, partial(self._fence, group, member, "its session has expired"))
        else:
            self._timers.move(member.session, due)

    def _await_revocation(self, group: StreamsGroup, member: StreamsMember, now_ms: int) -> None:
        cancel(member.rebalance)
        why = "it has not revoked its tasks within its rebalance timeout"
        due = now_ms + max(member.rebalance_timeout_ms, 0)
        member.rebalance = self._timers.start(due, partial(self._fence, group, member, why))

    def _fence(self, group: StreamsGroup, member: StreamsMember, why: str, now_ms: int) -> None:
        if group.members.get(member.member_id) is member:
            self._port.member_removed(group.group_id, member.member_id, why)
            self.remove(group, member, now_ms)
            self.store_again(group, now_ms)

    def remove(self, group: StreamsGroup, member: StreamsMember, now_ms: int) -> None:
        """Remove a member; the others get its tasks by the next target assignment."""
        member.stop_timers()
        group.remove(member.member_id)
        if member.endpoint is not None:
            group.endpoint_epoch += 1
        group.bump(now_ms)
        if group.members:
            self._begin(group, now_ms)
        else:
            cancel(self._delays.pop(group, None))

    # -- first assignments ---------------------------------------------------------------------------------------

    def _delay(self, group: StreamsGroup, settings: StreamsSettings, now_ms: int) -> None:
        """Let the first assignment wait for more members."""
        if settings.initial_rebalance_delay_ms > 0 and not self._is_delayed(group):
            due = now_ms + settings.initial_rebalance_delay_ms
            self._delays[group] = self._timers.start(due, partial(self._end_delay, group))

    def _end_delay(self, group: StreamsGroup, now_ms: int) -> None:
        self._delays.pop(group, None)
        if not group.is_dead:
            self._begin(group, now_ms)
            self.store_again(group, now_ms)

    def _is_delayed(self, group: StreamsGroup) -> bool:
        return group in self._delays

    # -- shards and topics ---------------------------------------------------------------------------------------

    def go_on(self, group: StreamsGroup, now_ms: int) -> None:
        """Start the timers of a loaded group."""
        for member in group.members.values():
            if member.session is None:
                self.keep_alive(group, member, now_ms)
            if member.state is TaskState.UNREVOKED_TASKS:
                self._await_revocation(group, member, now_ms)
        self.on_topics_changed(group, now_ms)

    def store_again(self, group: StreamsGroup, now_ms: int) -> None:
        """Write changes that nobody waits for, or that could not be stored before."""
        if group.has_changes:
            self._changes.store(group, now_ms, lambda error, later_ms: None)

    def stop(self, group: StreamsGroup, now_ms: int) -> None:
        """Stop the timers of a group that is unloaded or deleted; waiting heartbeats are answered."""
        for member in group.members.values():
            member.stop_timers()
        cancel(self._delays.pop(group, None))
        self._targets.stop(group, now_ms)

    def on_topics_changed(self, group: StreamsGroup, now_ms: int) -> None:
        """Assign a group again if topics of its topology were created or deleted, or have new partitions."""
        if self._configure(group) and group.members:
            group.bump(now_ms)
        if group.members:
            self._begin(group, now_ms)
        self.store_again(group, now_ms)

    def _configure(self, group: StreamsGroup) -> bool:
        """Compare the topology with the cluster's topics; return whether the group has to be assigned again."""
        shapes = {name: self._port.topic(name) for name in group.topology.topics()}
        topics = {name: shape for name, shape in shapes.items() if shape is not None}
        counts = {name: shape.partitions for name, shape in topics.items()}
        group.configured = configure(group.topology, counts.get)
        is_ready = group.has_topology and group.configured.is_ready
        after = metadata_hash(topics), group.topology.epoch if is_ready else NOT_VALIDATED
        before = group.metadata_hash, group.validated_epoch
        group.metadata_hash, group.validated_epoch = after
        return before != after

    # -- target assignments --------------------------------------------------------------------------------------

    def _begin(self, group: StreamsGroup, now_ms: int) -> None:
        if not self._is_delayed(group):
            self._targets.begin(group, now_ms)

    def _with_target(
        self, group: StreamsGroup, member: StreamsMember, answer: Callable[[int], None], now_ms: int
    ) -> None:
        """Call `answer`, now or when a member without an epoch has a target assignment."""
        self._begin(group, now_ms)
        if self._targets.is_computing(group) and not (group.target_epoch and member.epoch):
            self._targets.when_computed(group, answer)
        else:
            answer(now_ms)

    def _take_target(
        self, group: StreamsGroup, task: TaskAssignment, outcome: StreamsTarget | Exception, now_ms: int
    ) -> None:
        if isinstance(outcome, Exception):
            group.assigned_ms = now_ms
            self._port.assignment_rejected(group.group_id, repr(outcome))
        else:
            group.set_target(task.epoch, outcome, now_ms)


def _check_same_topology(group: StreamsGroup, beat: StreamsHeartbeat) -> None:
    """Raise KafkaError if a member joins with another topology than that of other members."""
    if beat.topology is None or not _differs(group, beat) or _replaces_topology(group, beat):
        return
    if beat.topology.epoch >= group.topology.epoch:
        raise KafkaError(
            f"the topology differs from that of the other members of group {group.group_id!r}, and Topology updates are"
            " not supported yet: stop all members before one starts with another topology",
            ErrorCode.INVALID_REQUEST,
        )


def _replaces_topology(group: StreamsGroup, beat: StreamsHeartbeat) -> bool:
    """Return whether a member's topology becomes that of the group: nobody else uses the former one."""
    if not _differs(group, beat):
        return False
    own_ids = {beat.member_id, group.static.get(beat.instance_id or "", beat.member_id)}
    return not group.has_topology or all(member_id in own_ids for member_id in group.members)


def _differs(group: StreamsGroup, beat: StreamsHeartbeat) -> bool:
    return beat.topology is not None and beat.topology != group.topology


def _check_tasks(group: StreamsGroup, owned: Tasks | None) -> None:
    """Raise KafkaError for tasks that the topology does not have."""
    if not owned or not group.configured.is_ready:
        return
    counts = group.configured.tasks
    for subtopology, number in owned:
        if subtopology not in counts:
            raise KafkaError(f"Subtopology {subtopology} does not exist in the topology.", ErrorCode.INVALID_REQUEST)
        if not 0 <= number < counts[subtopology]:
            raise KafkaError(
                f"Task {number} for subtopology {subtopology} is invalid. Number of tasks for this subtopology:"
                f" {counts[subtopology]}",
                ErrorCode.INVALID_REQUEST,
            )


def _update(group: StreamsGroup, member: StreamsMember, beat: StreamsHeartbeat) -> bool:
    """Take what a heartbeat says of its member; return whether the group has to be assigned again."""
    is_new = member.rebalance_timeout_ms == -1
    before = _metadata(member)
    member.rack_id = beat.rack_id or member.rack_id
    if beat.rebalance_timeout_ms is not None:
        member.rebalance_timeout_ms = beat.rebalance_timeout_ms
    if beat.topology is not None:
        member.topology_epoch = beat.topology.epoch
    if beat.process_id is not None:
        member.process_id = beat.process_id
    if beat.endpoint is not None:
        member.endpoint = beat.endpoint
    if beat.client_tags is not None:
        member.client_tags = beat.client_tags
    member.client_id, member.client_host = beat.client_id, beat.client_host
    after = _metadata(member)
    if after != before:
        group.note_member_change(member)
    return is_new or after[:4] != before[:4]


def _take_offsets(group: StreamsGroup, member: StreamsMember, beat: StreamsHeartbeat) -> None:
    """Keep the offsets of tasks that the topology has: a client chooses how many it sends."""
    if beat.offsets is not None:
        member.offsets = _of_tasks(group.configured.tasks, beat.offsets)
    if beat.end_offsets is not None:
        member.end_offsets = _of_tasks(group.configured.tasks, beat.end_offsets)


def _of_tasks(counts: Mapping[str, int], offsets: Mapping[Task, int]) -> dict[Task, int]:
    return {task: offset for task, offset in offsets.items() if 0 <= task[1] < counts.get(task[0], 0)}


def _metadata(member: StreamsMember) -> tuple[object, ...]:
    """Return what is stored of a member; the first four decide on its tasks."""
    return (
        member.rack_id,
        member.topology_epoch,
        member.process_id,
        member.client_tags,
        member.rebalance_timeout_ms,
        member.endpoint,
        member.client_id,
        member.client_host,
    )
