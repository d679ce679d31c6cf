"""Requests of members: JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

A dynamic member joins without id and gets one; since version 4 it joins again with that id (KIP-394). A static member
(KIP-345) without member id gets a new one and keeps its assignment; the old id is fenced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import attrs

from pylogbroker.coordinators import EventQueue, Reply
from pylogbroker.errors import ErrorCode
from pylogbroker.groups.classic.group import Group
from pylogbroker.groups.classic.member import Member
from pylogbroker.groups.classic.rebalance import Rebalancer
from pylogbroker.groups.classic.states import GroupState
from pylogbroker.groups.record_writer import GroupRecordWriter
from pylogbroker.groups.requests import (
    NO_MEMBER_ID,
    Heartbeat,
    Join,
    JoinResult,
    Leaving,
    Protocols,
    Sync,
    SyncResult,
)
from pylogbroker.groups.settings import GroupSettings
from pylogbroker.wire import STRING_BYTES_MAX


@attrs.define(eq=False, repr=False)
class MemberManager:
    _settings: GroupSettings
    _events: EventQueue
    _rebalancer: Rebalancer
    _writer: GroupRecordWriter
    _new_id: Callable[[], str]

    def join(self, group: Group, join: Join, reply: Reply[JoinResult], now_ms: int) -> None:
        if not self._has_capacity(group, join.member_id):
            group.remove(join.member_id)
            self._answer_error(reply, NO_MEMBER_ID, ErrorCode.GROUP_MAX_SIZE_REACHED)
        elif not group.accepts(join.protocol_type, join.protocols):
            self._answer_error(reply, join.member_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        elif join.member_id == NO_MEMBER_ID:
            self._join_unknown(group, join, reply, now_ms)
        else:
            self._join_known(group, join, reply, now_ms)
        self._rebalancer.try_complete(group, now_ms)

    def _has_capacity(self, group: Group, member_id: str) -> bool:
        if group.state is GroupState.EMPTY:
            return True
        member = group.members.get(member_id)
        if group.state is GroupState.PREPARING:  # the last to join exceed the limit
            return (member is not None and member.join is not None) or group.joining < self._settings.max_size
        return member is not None or len(group.members) < self._settings.max_size

    def _join_unknown(self, group: Group, join: Join, reply: Reply[JoinResult], now_ms: int) -> None:
        new_id = _member_id(join.client_id if join.instance_id is None else join.instance_id, self._new_id())
        if join.instance_id is not None and join.instance_id in group.static:
            self._replace(group, join, new_id, reply, now_ms)
        elif join.instance_id is None and join.needs_known_id:
            self._rebalancer.expect(group, new_id, join.session_timeout_ms, now_ms)
            self._answer_error(reply, new_id, ErrorCode.MEMBER_ID_REQUIRED)
        else:
            self._add(group, join, new_id, reply, now_ms)

    def _join_known(self, group: Group, join: Join, reply: Reply[JoinResult], now_ms: int) -> None:
        if join.member_id in group.pending and join.instance_id is None:
            self._add(group, join, join.member_id, reply, now_ms)
        elif error := group.check_member(join.member_id, join.instance_id):
            self._answer_error(reply, join.member_id, error)
        elif group.state is GroupState.PREPARING or _wants_rebalance(group, join):
            member = group.members[join.member_id]
            group.update(member, join.protocols, join.rebalance_timeout_ms, join.session_timeout_ms)
            self._await_rebalance(group, member, reply, now_ms)
        else:
            member = group.members[join.member_id]
            leads = group.state is GroupState.COMPLETING and group.leader == member.member_id
            self._events.reply(reply, group.join_result(member, members=leads))

    def _add(self, group: Group, join: Join, member_id: str, reply: Reply[JoinResult], now_ms: int) -> None:
        member = Member(
            member_id,
            join.instance_id,
            join.client_id,
            join.client_host,
            join.session_timeout_ms,
            join.rebalance_timeout_ms,
            join.protocols,
            is_new=True,
        )
        if group.initial_delay is not None and group.generation == 0:
            group.initial_delay.joined = True
        if not group.members:
            group.protocol_type = join.protocol_type
        group.add(member)
        self._rebalancer.keep_alive(group, member, now_ms)
        self._await_rebalance(group, member, reply, now_ms)

    def _await_rebalance(self, group: Group, member: Member, reply: Reply[JoinResult], now_ms: int) -> None:
        group.await_join(member, reply)
        self._rebalancer.maybe_prepare(group, now_ms)

    def _answer_error(self, reply: Reply[JoinResult], member_id: str, error: ErrorCode) -> None:
        self._events.reply(reply, JoinResult(error, member_id))

    def _replace(self, group: Group, join: Join, new_id: str, reply: Reply[JoinResult], now_ms: int) -> None:
        replacement = _Replacement(group, group.members[group.static[join.instance_id or ""]], join, new_id, reply)
        member = replacement.member
        group.replace_static(member, new_id)
        group.update(member, join.protocols, join.rebalance_timeout_ms, join.session_timeout_ms)
        self._rebalancer.keep_alive(group, member, now_ms)
        if group.state is GroupState.STABLE and group.select_protocol() == group.protocol_name:
            stored = partial(self._finish_replacement, replacement)
            self._writer.write_group(group, group.assignments(), now_ms, stored)
        else:
            self._await_rebalance(group, member, reply, now_ms)

    def _finish_replacement(self, done: _Replacement, error: ErrorCode, now_ms: int) -> None:
        """Reply after the append; restore the old id if it failed."""
        group = done.group
        if group.state is GroupState.DEAD:
            self._answer_error(done.reply, NO_MEMBER_ID, ErrorCode.NOT_COORDINATOR)
        elif not done.holds():
            self.join(group, attrs.evolve(done.join, member_id=done.new_id), done.reply, now_ms)
        elif error:
            done.revert()
            self._rebalancer.keep_alive(group, done.member, now_ms)
            self._answer_error(done.reply, NO_MEMBER_ID, error)
        else:
            self._events.reply(done.reply, done.result())

    def sync(self, group: Group, sync: Sync, reply: Reply[SyncResult], now_ms: int) -> None:
        error = _check_sync(group, sync)
        if error is ErrorCode.NONE and group.state is GroupState.PREPARING:
            error = ErrorCode.REBALANCE_IN_PROGRESS
        if error:
            self._events.reply(reply, SyncResult(error))
            return
        member = group.members[sync.member_id]
        self._rebalancer.has_synced(group, member.member_id)
        if group.state is GroupState.STABLE:
            self._events.reply(reply, group.sync_result(member))
            self._rebalancer.keep_alive(group, member, now_ms)
            return
        group.await_sync(member, reply)
        if group.leader == member.member_id and group.storing != group.generation:
            self._store_assignment(group, sync, now_ms)

    def _store_assignment(self, group: Group, sync: Sync, now_ms: int) -> None:
        generation = group.storing = group.generation
        assignments = group.assignments(sync.assignments)

        def stored(error: ErrorCode, later_ms: int) -> None:
            if group.state is not GroupState.COMPLETING or group.generation != generation:
                return
            if error:
                self._rebalancer.assign_error(group, error, later_ms)
                self._rebalancer.maybe_prepare(group, later_ms)
            else:
                self._rebalancer.assign(group, assignments, later_ms)

        self._writer.write_group(group, assignments, now_ms, stored)

    def heartbeat(self, group: Group, beat: Heartbeat, now_ms: int) -> ErrorCode:
        error = group.check_generation(beat.generation, beat.member_id, beat.instance_id)
        if error:
            return error
        self._rebalancer.keep_alive(group, group.members[beat.member_id], now_ms)
        return ErrorCode.REBALANCE_IN_PROGRESS if group.state is GroupState.PREPARING else ErrorCode.NONE

    def leave(self, group: Group, leaving: Sequence[Leaving], now_ms: int) -> tuple[ErrorCode, ...]:
        return tuple(self._leave(group, who, now_ms) for who in leaving)

    def _leave(self, group: Group, who: Leaving, now_ms: int) -> ErrorCode:
        member_id = who.member_id
        if member_id == NO_MEMBER_ID:
            member_id = group.static.get(who.instance_id or "", NO_MEMBER_ID)
        elif member_id in group.pending:
            self._rebalancer.drop_pending(group, member_id, now_ms)
            return ErrorCode.NONE
        error = group.check_member(member_id, who.instance_id)
        if error is ErrorCode.NONE:
            self._rebalancer.drop(group, group.members[member_id], now_ms)
        return error


@attrs.define(eq=False, repr=False)
class _Replacement:
    group: Group
    member: Member
    join: Join
    new_id: str
    reply: Reply[JoinResult]
    generation: int = attrs.field(init=False)
    old_leader: str | None = attrs.field(init=False)
    old_id: str = attrs.field(init=False)
    old_metadata: tuple[Protocols, int, int] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        member = self.member
        self.generation = self.group.generation
        self.old_leader = self.group.leader
        self.old_id = member.member_id
        self.old_metadata = (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)

    def holds(self) -> bool:
        group = self.group
        same_group = group.state is GroupState.STABLE and group.generation == self.generation
        return same_group and group.members.get(self.new_id) is self.member

    def revert(self) -> None:
        self.group.replace_static(self.member, self.old_id)
        self.group.update(self.member, *self.old_metadata)

    def result(self) -> JoinResult:
        """Return the result. The leader must not assign again: the others do not join.

        Clients that cannot skip the assignment get another leader's id.
        """
        group = self.group
        if not self.join.can_skip_assignment:
            return attrs.evolve(group.join_result(self.member, members=False), leader=self.old_leader or "")
        leads = group.leader == self.new_id
        return attrs.evolve(group.join_result(self.member, members=leads), skip_assignment=leads)


def _member_id(name: str, unique: str) -> str:
    suffix = f"-{unique}"
    return name.encode()[: STRING_BYTES_MAX - len(suffix)].decode(errors="ignore") + suffix


def _check_sync(group: Group, sync: Sync) -> ErrorCode:
    error = group.check_generation(sync.generation, sync.member_id, sync.instance_id)
    if error:
        return error
    same_type = sync.protocol_type is None or sync.protocol_type == group.protocol_type
    same_name = sync.protocol_name is None or sync.protocol_name == group.protocol_name
    return ErrorCode.NONE if same_type and same_name else ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def _wants_rebalance(group: Group, join: Join) -> bool:
    """Return whether to rebalance; a Stable group's leader asks for it by a join."""
    leads = group.state is GroupState.STABLE and group.leader == join.member_id
    return leads or group.members[join.member_id].protocols != join.protocols
