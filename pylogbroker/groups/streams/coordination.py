"""Requests about groups of Kafka Streams: heartbeats and descriptions, and changes of topics."""

from __future__ import annotations

from collections.abc import Callable, Collection

import attrs

from pylogbroker.coordinators import CoordinatorContext, EventQueue, Reply
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.groups.changes import GroupChanges
from pylogbroker.groups.classic.states import GroupState
from pylogbroker.groups.kinds import ClassicGroup, Group
from pylogbroker.groups.record_writer import GroupRecordWriter
from pylogbroker.groups.settings import StreamsGroupLimits
from pylogbroker.groups.shard import GroupShard
from pylogbroker.groups.streams.admission import check_fields, leaves
from pylogbroker.groups.streams.group import StreamsGroup
from pylogbroker.groups.streams.membership import StreamsMemberManager
from pylogbroker.groups.streams.port import StreamsPort
from pylogbroker.groups.streams.record_forms import STREAMS_RECORDS
from pylogbroker.groups.streams.requests import (
    StreamsGroupDescription,
    StreamsHeartbeat,
    StreamsHeartbeatResult,
    StreamsMemberDescription,
)
from pylogbroker.groups.streams.states import JOIN_EPOCH
from pylogbroker.long_loops import give_way

FindGroup = Callable[[str], tuple[ErrorCode, Group | None]]


@attrs.define(eq=False, repr=False)
class StreamsCoordination:
    _events: EventQueue
    members: StreamsMemberManager
    _writer: GroupRecordWriter
    changes: GroupChanges[StreamsGroup]
    port: StreamsPort
    _find: FindGroup
    _shard: Callable[[str], GroupShard]
    _awaits_topic: Callable[[], bool]

    @classmethod
    def of(
        cls,
        context: CoordinatorContext,
        limits: StreamsGroupLimits,
        port: StreamsPort,
        find: FindGroup,
        shard: Callable[[str], GroupShard],
        awaits_topic: Callable[[], bool],
    ) -> StreamsCoordination:
        changes: GroupChanges[StreamsGroup] = GroupChanges(context.writer, STREAMS_RECORDS)
        members = StreamsMemberManager(limits, context.events, context.timers, changes, port)
        writer = GroupRecordWriter(context.writer)
        return cls(context.events, members, writer, changes, port, find, shard, awaits_topic)

    def heartbeat(self, beat: StreamsHeartbeat, reply: Reply[StreamsHeartbeatResult], now_ms: int) -> None:
        """Join, go on or leave; answered when the changes are stored."""
        with self._events:
            try:
                self._heartbeat(beat, reply, now_ms)
            except KafkaError as error:
                self._events.reply(reply, StreamsHeartbeatResult(error.code, error.detail))

    def _heartbeat(self, beat: StreamsHeartbeat, reply: Reply[StreamsHeartbeatResult], now_ms: int) -> None:
        check_fields(beat)
        group = self._require(beat.group_id, joins=beat.epoch == JOIN_EPOCH)
        if group is None:
            group = self._create(beat.group_id, now_ms)
        if leaves(beat):
            self.members.leave(group, beat, reply, now_ms)
        else:
            self.members.heartbeat(group, beat, reply, now_ms)

    def _require(self, group_id: str, joins: bool = False) -> StreamsGroup | None:
        """Return the group, or None if a member that joins may create it; raise KafkaError."""
        error, group = self._find(group_id)
        if error:
            raise KafkaError(code=error)
        if isinstance(group, StreamsGroup):
            return group
        if group is None and self._awaits_topic():
            raise KafkaError(code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if joins else ErrorCode.UNKNOWN_MEMBER_ID)
        if joins and (group is None or (isinstance(group, ClassicGroup) and group.is_empty)):
            return None
        if group is None:
            raise KafkaError(f"Streams group {group_id} not found.", ErrorCode.GROUP_ID_NOT_FOUND)
        raise KafkaError(f"Group {group_id} is not a streams group.", ErrorCode.GROUP_ID_NOT_FOUND)

    def _create(self, group_id: str, now_ms: int) -> StreamsGroup:
        """Create a group; a classic one without members becomes it, and keeps its offsets."""
        shard = self._shard(group_id)
        former = shard.groups.get(group_id)
        group = StreamsGroup(group_id, shard.partition, now_ms)
        if isinstance(former, ClassicGroup):
            group.offsets = former.offsets
            former.stop_timers()
            former.move(GroupState.DEAD, now_ms)
            if former.generation > 0:
                self._writer.write_tombstones(former, (), True, now_ms)
        shard.groups[group_id] = group
        return group

    def retire(self, group: StreamsGroup, now_ms: int) -> None:
        """Let a group without members end: it is deleted, or becomes a classic one."""
        group.die(now_ms)
        self.changes.write_tombstones(group, now_ms)
        self.members.stop(group, now_ms)

    def describe(self, group_id: str) -> StreamsGroupDescription:
        try:
            group = self._require(group_id)
        except KafkaError as error:
            return StreamsGroupDescription(error.code, group_id, error.detail)
        assert group is not None
        return StreamsGroupDescription(
            ErrorCode.NONE,
            group_id,
            None,
            group.state.value,
            group.epoch,
            group.target_epoch,
            group.topology,
            group.configured,
            self.members.settings_of(group).assignor,
            tuple(
                StreamsMemberDescription(
                    member.member_id,
                    member.epoch,
                    member.instance_id,
                    member.rack_id,
                    member.client_id,
                    member.client_host,
                    member.topology_epoch,
                    member.process_id,
                    member.endpoint,
                    member.client_tags,
                    member.offsets,
                    member.end_offsets,
                    member.assigned,
                    group.target_of(member.member_id),
                )
                for member in group.members.values()
            ),
        )

    def heartbeats(self, group: StreamsGroup) -> dict[str, int]:
        """Return when members were heard of last, in ms."""
        timeout_ms = self.members.settings_of(group).session_timeout_ms
        return {
            member.member_id: member.session.due - timeout_ms
            for member in group.members.values()
            if member.session is not None
        }

    async def on_topics_changed(self, names: Collection[str], groups: Collection[Group], now_ms: int) -> None:
        """Assign groups again whose topologies name changed topics, a step for each."""
        for group in groups:
            if isinstance(group, StreamsGroup) and not group.is_dead:
                topics = group.topology.topics()
                if any(name in topics for name in names):
                    with self._events:
                        self.members.on_topics_changed(group, now_ms)
                await give_way()
