"""How a group comes from one generation to the next, and how it loses members.

    prepare     all are asked to join again (by the answers to their heartbeats); joins wait
    complete    everybody has joined, or the time is up: who is missing is dropped (static members are kept), all who
                wait are answered with the new generation, and the time for their SyncGroup begins
    expiry      of a session: that member is dropped; of the time for SyncGroup: all who have not synced are dropped;
                of a member id that was given out: it is forgotten

The first rebalance of a group waits `group.initial.rebalance.delay.ms`, and again as long while members keep coming, up
to the rebalance timeout, so that the consumers of a starting application end up in one generation.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import attrs

from pylogbroker.coordinators import Timers, cancel
from pylogbroker.errors import ErrorCode
from pylogbroker.groups.classic.group import Group, InitialDelay
from pylogbroker.groups.classic.member import Member
from pylogbroker.groups.classic.states import GroupState
from pylogbroker.groups.record_writer import GroupRecordWriter
from pylogbroker.groups.requests import JoinResult, SyncResult
from pylogbroker.groups.settings import GroupSettings

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
"""How long the join of a new member may wait. It does not have its id yet, so it cannot send heartbeats; a client that
gave up asks again, and without a limit its former selves would pile up."""

JOIN_RETRY_MS_MIN = 1_000
"""The shortest wait before looking again whether anybody has joined."""


@attrs.frozen
class NewGeneration:
    """A group's rebalance is complete."""

    group_id: str
    generation: int
    members: int
    protocol: str | None  # None in an empty group


def ignore_generation(new: NewGeneration) -> None:
    """Tests may do without."""


_REBALANCEABLE = (GroupState.EMPTY, GroupState.COMPLETING, GroupState.STABLE)


@attrs.define(eq=False)
class Rebalancer:
    """Moves groups between generations."""

    _settings: GroupSettings
    _timers: Timers
    _writer: GroupRecordWriter
    _on_generation: Callable[[NewGeneration], None] = ignore_generation

    # -- a member's life -------------------------------------------------------------------------------------------

    def keep_alive(self, group: Group, member: Member, now_ms: int) -> None:
        """The member has shown that it lives: its session begins again."""
        timeout_ms = NEW_MEMBER_JOIN_TIMEOUT_MS if member.is_new else member.session_timeout_ms
        due = now_ms + timeout_ms
        if member.session is None:
            member.session = self._timers.start(due, partial(self._session_timeout, group, member))
        else:
            self._timers.move(member.session, due)

    def expect(self, group: Group, member_id: str, timeout_ms: int, now_ms: int) -> None:
        """A member id has been given out: it must be used within `timeout_ms`."""
        group.pending[member_id] = self._timers.start(now_ms + timeout_ms, partial(self.drop_pending, group, member_id))

    def drop(self, group: Group, member: Member, now_ms: int) -> None:
        """Remove a member, and rebalance what is left. If it still waits, its client may join anew."""
        group.answer_join(member, JoinResult(ErrorCode.UNKNOWN_MEMBER_ID))
        group.answer_sync(member, SyncResult(ErrorCode.UNKNOWN_MEMBER_ID))
        group.remove(member.member_id)
        if group.state is GroupState.PREPARING:
            self.try_complete(group, now_ms)
        else:
            self.maybe_prepare(group, now_ms)

    def drop_pending(self, group: Group, member_id: str, now_ms: int) -> None:
        """Forget a member id that was given out."""
        group.remove(member_id)
        self.try_complete(group, now_ms)

    def _session_timeout(self, group: Group, member: Member, now_ms: int) -> None:
        if member.is_new or not member.is_waiting:
            self.drop(group, member, now_ms)

    # -- preparing -------------------------------------------------------------------------------------------------

    def maybe_prepare(self, group: Group, now_ms: int) -> None:
        """Begin a rebalance unless one is being prepared."""
        if group.state in _REBALANCEABLE:
            self.prepare(group, now_ms)

    def prepare(self, group: Group, now_ms: int) -> None:
        """Begin a rebalance. Who waits for an assignment has to join again."""
        if group.state is GroupState.COMPLETING:
            self.assign_error(group, ErrorCode.REBALANCE_IN_PROGRESS, now_ms)
        self._stop_waiting_for_syncs(group)
        if group.state is GroupState.EMPTY:
            delay = self._settings.initial_rebalance_delay_ms
            group.initial_delay = InitialDelay(max(group.rebalance_timeout_ms - delay, 0))
            group.move(GroupState.PREPARING, now_ms)
            self._await_joins(group, delay, now_ms)
        else:
            group.move(GroupState.PREPARING, now_ms)
            self._await_joins(group, group.rebalance_timeout_ms, now_ms)
            self.try_complete(group, now_ms)

    def _await_joins(self, group: Group, timeout_ms: int, now_ms: int) -> None:
        cancel(group.join_timer)
        group.join_timer = self._timers.start(now_ms + timeout_ms, partial(self._join_timeout, group))

    def _join_timeout(self, group: Group, now_ms: int) -> None:
        initial = group.initial_delay
        if initial is not None and initial.joined and initial.remaining_ms:
            delay = min(self._settings.initial_rebalance_delay_ms, initial.remaining_ms)
            group.initial_delay = InitialDelay(initial.remaining_ms - delay)
            self._await_joins(group, delay, now_ms)
        else:
            self._complete(group, now_ms)

    # -- completing ------------------------------------------------------------------------------------------------

    def try_complete(self, group: Group, now_ms: int) -> None:
        """Complete the rebalance that is being prepared, if nobody is missing and it is not a group's first."""
        if group.state is GroupState.PREPARING and group.initial_delay is None and group.all_joined:
            self._complete(group, now_ms)

    def _complete(self, group: Group, now_ms: int) -> None:
        group.initial_delay = None
        cancel(group.join_timer)
        for member in list(group.members.values()):
            if not member.joins and member.instance_id is None:
                group.remove(member.member_id)
        if group.members and not group.elect_leader():
            self._await_joins(group, max(group.rebalance_timeout_ms, JOIN_RETRY_MS_MIN), now_ms)
            return
        group.next_generation(now_ms)
        self._on_generation(NewGeneration(group.group_id, group.generation, len(group.members), group.protocol_name))
        if group.members:
            self._announce(group, now_ms)
        else:
            self._writer.write_group(group, {}, now_ms, lambda error, later_ms: None)

    def _announce(self, group: Group, now_ms: int) -> None:
        for member in group.members.values():
            group.answer_join(member, group.join_result(member, members=member.member_id == group.leader))
            member.is_new = False
            self.keep_alive(group, member, now_ms)
            group.unsynced.add(member.member_id)
        due = now_ms + max(group.rebalance_timeout_ms, 0)
        group.sync_timer = self._timers.start(due, partial(self._sync_timeout, group))

    # -- assigning -------------------------------------------------------------------------------------------------

    def has_synced(self, group: Group, member_id: str) -> None:
        """The member has asked for its assignment."""
        group.unsynced.discard(member_id)
        if not group.unsynced:
            cancel(group.sync_timer)

    def assign(self, group: Group, assignments: dict[str, bytes], now_ms: int) -> None:
        """The leader's assignment is stored: everybody who waits gets theirs."""
        for member in group.members.values():
            member.assignment = assignments[member.member_id]
        group.move(GroupState.STABLE, now_ms)
        for member in group.members.values():
            if group.answer_sync(member, group.sync_result(member)):
                self.keep_alive(group, member, now_ms)

    def assign_error(self, group: Group, error: ErrorCode, now_ms: int) -> None:
        """There will be no assignment in this generation."""
        for member in group.members.values():
            member.assignment = b""
            if group.answer_sync(member, SyncResult(error)):
                self.keep_alive(group, member, now_ms)

    def _sync_timeout(self, group: Group, now_ms: int) -> None:
        for member_id in list(group.unsynced):
            group.remove(member_id)
        self.prepare(group, now_ms)

    def _stop_waiting_for_syncs(self, group: Group) -> None:
        group.unsynced.clear()
        cancel(group.sync_timer)
