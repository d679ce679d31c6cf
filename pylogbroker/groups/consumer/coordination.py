"""Requests about consumer groups: heartbeats and descriptions, and changes of topics."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from uuid import UUID

import attrs

from pylogbroker.coordinators import EventQueue, Reply
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.groups.changes import GroupChanges
from pylogbroker.groups.classic.states import GroupState
from pylogbroker.groups.consumer.admission import leaves
from pylogbroker.groups.consumer.group import ConsumerGroup
from pylogbroker.groups.consumer.membership import ConsumerMemberManager
from pylogbroker.groups.consumer.migration import Migration
from pylogbroker.groups.consumer.port import GroupPort, Matches
from pylogbroker.groups.consumer.requests import (
    ConsumerGroupDescription,
    ConsumerMemberDescription,
    HeartbeatResult,
    MemberHeartbeat,
)
from pylogbroker.groups.consumer.states import JOIN_EPOCH
from pylogbroker.groups.kinds import ClassicGroup, Group
from pylogbroker.groups.record_writer import GroupRecordWriter
from pylogbroker.groups.shard import GroupShard
from pylogbroker.long_loops import give_way

FindGroup = Callable[[str], tuple[ErrorCode, Group | None]]


@attrs.define(eq=False, repr=False)
class ConsumerCoordination:
    _events: EventQueue
    _members: ConsumerMemberManager
    _writer: GroupRecordWriter
    _changes: GroupChanges[ConsumerGroup]
    _port: GroupPort
    _find: FindGroup
    _shard: Callable[[str], GroupShard]
    _awaits_topic: Callable[[], bool]
    _migration: Migration

    def __attrs_post_init__(self) -> None:
        self._members.on_removed = self._downgrade

    def _downgrade(self, group: ConsumerGroup, now_ms: int) -> bool:
        """Let a group whose members are all classic become a classic one."""
        classic = self._migration.downgraded(group, now_ms)
        if classic is not None:
            self._shard(group.group_id).groups[group.group_id] = classic
        return classic is not None

    def heartbeat(self, beat: MemberHeartbeat, reply: Reply[HeartbeatResult], now_ms: int) -> None:
        """Join, go on or leave; answered when the changes are stored."""
        self._attempt(beat, partial(self._heartbeat, beat, reply), reply, now_ms)

    def _heartbeat(self, beat: MemberHeartbeat, reply: Reply[HeartbeatResult], now_ms: int) -> None:
        beat = self._members.check(beat)
        group = self._require(beat)
        if leaves(beat):
            if group is None:
                raise _not_found(beat.group_id)
            self._members.leave(group, beat, reply, now_ms)
        elif self._members.has_new_expression(group, beat):
            self._members.resolve(beat, partial(self._go_on, beat, reply))
        else:
            self._with_group(beat, {}, reply, now_ms)

    def _go_on(self, beat: MemberHeartbeat, reply: Reply[HeartbeatResult], matches: Matches, now_ms: int) -> None:
        self._attempt(beat, partial(self._with_group, beat, matches, reply), reply, now_ms)

    def _with_group(self, beat: MemberHeartbeat, matches: Matches, reply: Reply[HeartbeatResult], now_ms: int) -> None:
        """Handle a heartbeat; one that joins creates the group, which is dropped if it may not join."""
        group = self._require(beat)
        if group is not None:
            self._members.heartbeat(group, beat, matches, reply, now_ms)
            return
        shard = self._shard(beat.group_id)
        former = shard.groups.get(beat.group_id)
        self._members.check_joining(matches)
        if isinstance(former, ClassicGroup) and former.members:
            group = self._migration.upgraded(former, now_ms)
        else:
            group = ConsumerGroup(beat.group_id, shard.partition, now_ms)
            if former is not None:
                self._replace_classic(former, group, now_ms)
        shard.groups[beat.group_id] = group
        self._members.heartbeat(group, beat, matches, reply, now_ms)

    def _attempt(
        self,
        beat: MemberHeartbeat,
        handle: Callable[[int], None],
        reply: Reply[HeartbeatResult],
        now_ms: int,
    ) -> None:
        with self._events:
            try:
                handle(now_ms)
            except KafkaError as error:
                self._events.reply(reply, HeartbeatResult(error.code, error.detail, beat.member_id or None))

    def _require(self, beat: MemberHeartbeat) -> ConsumerGroup | None:
        """Return the group, or None if the member may create it."""
        error, group = self._find(beat.group_id)
        if error:
            raise KafkaError(code=error)
        if isinstance(group, ConsumerGroup):
            return group
        if group is not None and not isinstance(group, ClassicGroup):
            raise _not_found(beat.group_id)
        if self._awaits_topic():
            joins = beat.epoch == JOIN_EPOCH
            raise KafkaError(code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if joins else ErrorCode.UNKNOWN_MEMBER_ID)
        if beat.epoch != JOIN_EPOCH:
            raise _not_found(beat.group_id)
        return None

    def _replace_classic(self, former: Group, group: ConsumerGroup, now_ms: int) -> None:
        """Let a classic group without members become one of KIP-848; it keeps its offsets."""
        if not isinstance(former, ClassicGroup):
            return
        group.offsets = former.offsets
        former.stop_timers()
        former.move(GroupState.DEAD, now_ms)
        if former.generation > 0:
            self._writer.write_tombstones(former, (), True, now_ms)

    def replace_by_classic(self, group: ConsumerGroup, now_ms: int) -> ClassicGroup:
        """Let a group without members become a classic one; it keeps its offsets."""
        group.die(now_ms)
        self._changes.write_tombstones(group, now_ms)
        self._members.stop(group, now_ms)
        classic = self._shard(group.group_id).create(group.group_id, self._events, now_ms)
        classic.offsets = group.offsets
        return classic

    def topic_name(self, topic_id: UUID) -> str | None:
        return self._port.topic_name(topic_id)

    def describe(self, group_id: str) -> ConsumerGroupDescription:
        error, group = self._find(group_id)
        if error:
            return ConsumerGroupDescription(error, group_id, error.meaning)
        if not isinstance(group, ConsumerGroup):
            missing = _not_found(group_id)
            return ConsumerGroupDescription(missing.code, group_id, missing.detail)
        return ConsumerGroupDescription(
            ErrorCode.NONE,
            group_id,
            None,
            group.state.value,
            group.epoch,
            group.target_epoch,
            self._members.assignor_name(group),
            tuple(
                ConsumerMemberDescription(
                    member.member_id,
                    member.instance_id,
                    member.rack_id,
                    member.epoch,
                    member.client_id,
                    member.client_host,
                    member.topics,
                    member.expression,
                    tuple(member.holds()),
                    group.target_of(member.member_id),
                    member.classic is not None,
                )
                for member in group.members.values()
            ),
        )

    def heartbeats(self, group: ConsumerGroup) -> dict[str, int]:
        """Return when members were heard of last, in ms."""
        return {
            member.member_id: member.session.due - self._members.session_timeout_ms(group, member)
            for member in group.members.values()
            if member.session is not None
        }

    async def on_topics_changed(self, names: Collection[str], groups: Collection[Group], now_ms: int) -> None:
        """Assign groups again that subscribe to changed topics, a step for each."""
        for group in groups:
            if isinstance(group, ConsumerGroup) and not group.is_dead:
                if any(name in group.subscribed for name in names):
                    with self._events:
                        self._members.on_topics_changed(group, now_ms)
                await give_way()


def _not_found(group_id: str) -> KafkaError:
    return KafkaError(f"Group {group_id} not found.", ErrorCode.GROUP_ID_NOT_FOUND)
