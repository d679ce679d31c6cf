"""Requests about share groups: heartbeats, descriptions, offsets and deletion, and changes of topics."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from uuid import UUID

import attrs

from pylogbroker.coordinators import EventQueue, Reply
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.groups.changes import GroupChanges
from pylogbroker.groups.consumer.partitions import TopicIdPartition
from pylogbroker.groups.kinds import Group
from pylogbroker.groups.shard import GroupShard
from pylogbroker.groups.share.group import FIRST_EPOCH, ShareGroup
from pylogbroker.groups.share.membership import ShareMemberManager, check_fields
from pylogbroker.groups.share.port import SharePort
from pylogbroker.groups.share.requests import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    ShareGroupDescription,
    ShareHeartbeat,
    ShareHeartbeatResult,
    ShareMemberDescription,
    ShareOffsetsResult,
)
from pylogbroker.groups.share.states import Results
from pylogbroker.groups.share.targets import ASSIGNOR
from pylogbroker.long_loops import give_way

FindGroup = Callable[[str], tuple[ErrorCode, Group | None]]


@attrs.define(eq=False, repr=False)
class ShareCoordination:
    _events: EventQueue
    _members: ShareMemberManager
    _changes: GroupChanges[ShareGroup]
    _port: SharePort
    _find: FindGroup
    _shard: Callable[[str], GroupShard]
    _awaits_topic: Callable[[], bool]

    # -- members -----------------------------------------------------------------------------------------------------

    def heartbeat(self, beat: ShareHeartbeat, reply: Reply[ShareHeartbeatResult], now_ms: int) -> None:
        """Join, go on or leave; answered when the changes are stored."""
        with self._events:
            try:
                self._heartbeat(beat, reply, now_ms)
            except KafkaError as error:
                self._events.reply(reply, ShareHeartbeatResult(error.code, error.detail))

    def _heartbeat(self, beat: ShareHeartbeat, reply: Reply[ShareHeartbeatResult], now_ms: int) -> None:
        check_fields(beat)
        group = self._require(beat.group_id, may_create=beat.epoch == JOIN_EPOCH)
        if group is None:
            if self._awaits_topic():
                raise KafkaError(code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            group = self._create(beat.group_id, now_ms)
        if beat.epoch == LEAVE_EPOCH:
            self._members.leave(group, beat, reply, now_ms)
        else:
            self._members.heartbeat(group, beat, reply, now_ms)

    def _require(self, group_id: str, may_create: bool = False) -> ShareGroup | None:
        """Return the group, or None if there is none and it may be created; raise KafkaError."""
        error, group = self._find(group_id)
        if error:
            raise KafkaError(code=error)
        if isinstance(group, ShareGroup):
            return group
        if group is not None:
            raise KafkaError(f"Group {group_id} is not a share group.", ErrorCode.GROUP_ID_NOT_FOUND)
        if may_create:
            return None
        raise KafkaError(f"Group {group_id} not found.", ErrorCode.GROUP_ID_NOT_FOUND)

    def _create(self, group_id: str, now_ms: int) -> ShareGroup:
        shard = self._shard(group_id)
        group = shard.groups[group_id] = ShareGroup(group_id, shard.partition, now_ms, FIRST_EPOCH)
        return group

    def topic_name(self, topic_id: UUID) -> str | None:
        return self._port.topic_name(topic_id)

    def describe(self, group_id: str) -> ShareGroupDescription:
        try:
            group = self._require(group_id)
        except KafkaError as error:
            return ShareGroupDescription(error.code, group_id, error.detail)
        assert group is not None
        return ShareGroupDescription(
            ErrorCode.NONE,
            group_id,
            None,
            group.state.value,
            group.epoch,
            group.target_epoch,
            ASSIGNOR,
            tuple(
                ShareMemberDescription(
                    member.member_id,
                    member.rack_id,
                    member.epoch,
                    member.client_id,
                    member.client_host,
                    member.topics,
                    member.assigned,
                )
                for member in group.members.values()
            ),
        )

    # -- offsets -----------------------------------------------------------------------------------------------------

    def partitions_with_states(self, group_id: str) -> dict[UUID, frozenset[int]]:
        """Return the partitions from which a group reads; none for a group of another type. Raise KafkaError."""
        error, group = self._find(group_id)
        if error and error is not ErrorCode.INVALID_GROUP_ID:
            raise KafkaError(code=error)
        return dict(group.states.initialized) if isinstance(group, ShareGroup) else {}

    def set_starts(
        self, group_id: str, starts: Mapping[TopicIdPartition, int], reply: Reply[ShareOffsetsResult], now_ms: int
    ) -> None:
        """Set where a group without members begins to read partitions; the group is created if there is none.

        A new epoch makes the former states void, also those that leaders of partitions still have in memory.
        """

        def done(results: Results, later_ms: int) -> None:
            self._events.reply(reply, ShareOffsetsResult(ErrorCode.NONE, None, results))

        with self._events:
            try:
                group = self._require_empty(group_id, may_create=True) or self._create(group_id, now_ms)
            except KafkaError as error:
                self._events.reply(reply, ShareOffsetsResult(error.code, error.detail))
                return
            if not starts:
                done({}, now_ms)
                return
            self._members.bump(group, now_ms)
            group.set_target(group.epoch, {}, 0)
            self._members.states.set_starts(group, starts, done, now_ms)

    def delete_starts(
        self, group_id: str, topics: Collection[UUID], reply: Reply[ShareOffsetsResult], now_ms: int
    ) -> None:
        """Let a group without members forget topics; UNKNOWN_TOPIC_OR_PARTITION for one that it does not have."""
        with self._events:
            try:
                group = self._require_empty(group_id)
            except KafkaError as error:
                self._events.reply(reply, ShareOffsetsResult(error.code, error.detail))
                return
            assert group is not None
            states = group.states
            present = [topic_id for topic_id in topics if topic_id in states or topic_id in states.deleting]
            missing = {
                (topic_id, 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for topic_id in topics if topic_id not in present
            }

            def done(results: Results, later_ms: int) -> None:
                self._events.reply(reply, ShareOffsetsResult(ErrorCode.NONE, None, {**results, **missing}))

            self._members.states.delete(group, present, done, now_ms)

    def _require_empty(self, group_id: str, may_create: bool = False) -> ShareGroup | None:
        group = self._require(group_id, may_create)
        if group is not None and group.members:
            raise KafkaError("The group is not empty.", ErrorCode.NON_EMPTY_GROUP)
        return group

    # -- deletion ----------------------------------------------------------------------------------------------------

    def delete(self, group: ShareGroup, reply: Reply[ErrorCode], now_ms: int) -> None:
        """Delete a group without members, after its states. If states remain, the group does, too."""

        def deleted(results: Results, later_ms: int) -> None:
            error = next(filter(None, results.values()), ErrorCode.NONE)
            if group.is_dead:
                error = ErrorCode.NONE  # by another request
            elif not group.is_empty:
                error = ErrorCode.NON_EMPTY_GROUP
            elif not error:
                group.die(later_ms)
                self._members.stop(group, later_ms)
                self._changes.write_tombstones(group, later_ms)
                self._shard(group.group_id).remove_if_dead(group)
            self._events.reply(reply, error)

        with self._events:
            if not group.is_empty:
                self._events.reply(reply, ErrorCode.NON_EMPTY_GROUP)
            else:
                self._members.states.delete(group, tuple(group.states.names), deleted, now_ms)

    # -- topics ------------------------------------------------------------------------------------------------------

    async def on_topics_changed(
        self, names: Collection[str], deleted: Collection[UUID], groups: Collection[Group], now_ms: int
    ) -> None:
        """Assign groups again that subscribe to changed topics, a step for each; let all forget deleted ones."""
        for group in groups:
            if isinstance(group, ShareGroup) and not group.is_dead:
                has_deleted = any(topic_id in group.states.names for topic_id in deleted)
                if has_deleted or any(map(group.is_subscribed, names)):
                    with self._events:
                        self._members.on_topics_changed(group, now_ms)
                await give_way()
