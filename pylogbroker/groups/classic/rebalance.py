"""Rebalances and the removal of members.

    prepare     responses to heartbeats ask all members to join again; joins wait
    complete    all have joined or timed out: missing members are removed (static ones stay), the others get the new
                generation, and their SyncGroup timeout starts
    timeouts    of a session: the member is removed; of SyncGroup: all that have not synced are removed; of an assigned
                member id: the id is removed

A group's first rebalance waits `group.initial.rebalance.delay.ms`, and again while members join, up to the rebalance
timeout (KIP-134).
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

_NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
"""Longest wait of a new member's join: it sends no heartbeats, so that joins of clients that retry would accumulate."""

_JOIN_RETRY_MS_MIN = 1_000
"""Shortest time between checks for joins."""


@attrs.frozen
class NewGeneration:
    group_id: str
    generation: int
    members: int
    protocol: str | None  # None in an empty group


def ignore_generation(new: NewGeneration) -> None:
    """Do nothing."""


_REBALANCEABLE = (GroupState.EMPTY, GroupState.COMPLETING, GroupState.STABLE)


@attrs.define(eq=False, repr=False)
class Rebalancer:
    _settings: GroupSettings
    _timers: Timers
    _writer: GroupRecordWriter
    _on_generation: Callable[[NewGeneration], None] = ignore_generation

    def keep_alive(self, group: Group, member: Member, now_ms: int) -> None:
        timeout_ms = _NEW_MEMBER_JOIN_TIMEOUT_MS if member.is_new else member.session_timeout_ms
        due = now_ms + timeout_ms
        if member.session is None:
            member.session = self._timers.start(due, partial(self._session_timeout, group, member))
        else:
            self._timers.move(member.session, due)

    def expect(self, group: Group, member_id: str, timeout_ms: int, now_ms: int) -> None:
        group.pending[member_id] = self._timers.start(now_ms + timeout_ms, partial(self.drop_pending, group, member_id))

    def drop(self, group: Group, member: Member, now_ms: int) -> None:
        """Remove a member and rebalance; waiting requests get UNKNOWN_MEMBER_ID."""
        group.answer_join(member, JoinResult(ErrorCode.UNKNOWN_MEMBER_ID))
        group.answer_sync(member, SyncResult(ErrorCode.UNKNOWN_MEMBER_ID))
        group.remove(member.member_id)
        if group.state is GroupState.PREPARING:
            self.try_complete(group, now_ms)
        else:
            self.maybe_prepare(group, now_ms)

    def drop_pending(self, group: Group, member_id: str, now_ms: int) -> None:
        group.remove(member_id)
        self.try_complete(group, now_ms)

    def _session_timeout(self, group: Group, member: Member, now_ms: int) -> None:
        if member.is_new or not member.is_waiting:
            self.drop(group, member, now_ms)

    def maybe_prepare(self, group: Group, now_ms: int) -> None:
        if group.state in _REBALANCEABLE:
            self.prepare(group, now_ms)

    def prepare(self, group: Group, now_ms: int) -> None:
        """Begin a rebalance; members that wait for an assignment join again."""
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

    def try_complete(self, group: Group, now_ms: int) -> None:
        if group.state is GroupState.PREPARING and group.initial_delay is None and group.all_joined:
            self._complete(group, now_ms)

    def _complete(self, group: Group, now_ms: int) -> None:
        group.initial_delay = None
        cancel(group.join_timer)
        for member in list(group.members.values()):
            if member.join is None and member.instance_id is None:
                group.remove(member.member_id)
        if group.members and not group.elect_leader():
            self._await_joins(group, max(group.rebalance_timeout_ms, _JOIN_RETRY_MS_MIN), now_ms)
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

    def has_synced(self, group: Group, member_id: str) -> None:
        group.unsynced.discard(member_id)
        if not group.unsynced:
            cancel(group.sync_timer)

    def assign(self, group: Group, assignments: dict[str, bytes], now_ms: int) -> None:
        for member in group.members.values():
            member.assignment = assignments[member.member_id]
        group.move(GroupState.STABLE, now_ms)
        for member in group.members.values():
            if group.answer_sync(member, group.sync_result(member)):
                self.keep_alive(group, member, now_ms)

    def assign_error(self, group: Group, error: ErrorCode, now_ms: int) -> None:
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
