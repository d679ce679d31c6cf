"""The group coordinator: passes requests to the groups.

While a shard is loading, heartbeats get NONE and syncs REBALANCE_IN_PROGRESS: members stay, and the group rebalances.
Otherwise the shard's state decides (`coordinators.runtime`).

`__consumer_offsets` may be deleted while groups have members. Until it exists again the coordinator answers as one
without groups: a member learns that it is unknown, and joins again at once. Requests that create a group wait for the
topic. After NOT_COORDINATOR librdkafka might search until its session has expired.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

import attrs

from pylogbroker.coordinators import (
    CoordinatorContext,
    CoordinatorRuntime,
    Deliver,
    EventQueue,
    LogPort,
    Reply,
    TopicPartition,
    run_all,
)
from pylogbroker.errors import ErrorCode
from pylogbroker.features import on_first_use
from pylogbroker.groups.changes import GroupChanges
from pylogbroker.groups.classic.membership import MemberManager
from pylogbroker.groups.classic.rebalance import NewGeneration, Rebalancer, ignore_generation
from pylogbroker.groups.classic.states import GroupState
from pylogbroker.groups.consumer.coordination import ConsumerCoordination
from pylogbroker.groups.consumer.membership import ConsumerMemberManager
from pylogbroker.groups.consumer.migration import Migration
from pylogbroker.groups.consumer.port import NO_TOPICS, GroupPort
from pylogbroker.groups.consumer.record_forms import CONSUMER_RECORDS
from pylogbroker.groups.kinds import ClassicGroup, ConsumerGroup, Group, ShareGroup, is_streams
from pylogbroker.groups.offset_manager import OffsetManager
from pylogbroker.groups.record_writer import GroupRecordWriter
from pylogbroker.groups.replay import ReplayedGroups
from pylogbroker.groups.requests import (
    NO_GENERATION,
    NO_MEMBER_ID,
    Commit,
    CommitResult,
    DeleteOffsetsResult,
    FetchResult,
    GroupDescription,
    GroupOverview,
    Heartbeat,
    Join,
    JoinResult,
    LeaveResult,
    Leaving,
    Sync,
    SyncResult,
    TransactionalCommit,
)
from pylogbroker.groups.settings import GroupSettings
from pylogbroker.groups.shard import GroupShard, GroupShardHandler
from pylogbroker.groups.share.coordination import ShareCoordination
from pylogbroker.groups.share.membership import ShareMemberManager
from pylogbroker.groups.share.port import NO_SHARES, SharePort
from pylogbroker.groups.share.record_forms import SHARE_RECORDS
from pylogbroker.long_loops import give_way
from pylogbroker.wire import STRING_BYTES_MAX

if TYPE_CHECKING:
    from pylogbroker.groups.streams import coordination as streams_coordination
    from pylogbroker.groups.streams.coordination import StreamsCoordination
    from pylogbroker.groups.streams.port import StreamsPort
else:
    streams_coordination = on_first_use("pylogbroker.groups.streams.coordination")

_DELETED_OFFSETS_INLINE_MAX = 1000


def _random_id() -> str:
    return str(uuid.uuid4())


@attrs.define(eq=False, repr=False)
class GroupCoordinator:
    """Groups of the active shards. The driver loads shards into `runtime` and runs its `tick`."""

    settings: GroupSettings
    _log_port: LogPort
    _new_id: Callable[[], str] = _random_id
    _on_generation: Callable[[NewGeneration], None] = ignore_generation
    _deliver: Deliver = run_all
    _port: GroupPort = NO_TOPICS
    _share_port: SharePort = NO_SHARES
    _make_streams_port: Callable[[], StreamsPort] | None = None
    _assignors: Mapping[str, Any] = attrs.field(factory=dict)  # of KIP-848, by name, the default one first
    runtime: CoordinatorRuntime[ReplayedGroups, GroupShard] = attrs.field(init=False)
    _context: CoordinatorContext = attrs.field(init=False)
    _events: EventQueue = attrs.field(init=False)
    _rebalancer: Rebalancer = attrs.field(init=False)
    _members: MemberManager = attrs.field(init=False)
    _offsets: OffsetManager = attrs.field(init=False)
    _changes: GroupChanges[ConsumerGroup] = attrs.field(init=False)
    consumers: ConsumerCoordination = attrs.field(init=False)
    migration: Migration = attrs.field(init=False)
    shares: ShareCoordination = attrs.field(init=False)
    _shard_handler: GroupShardHandler = attrs.field(init=False)
    _held: list[Callable[[int], None]] | None = attrs.field(default=None, init=False)  # while the topic is awaited

    def __attrs_post_init__(self) -> None:
        context = self._context = CoordinatorContext(self._log_port, EventQueue(self._deliver))
        events = self._events = context.events
        writer = GroupRecordWriter(context.writer)
        rebalancer = self._rebalancer = Rebalancer(self.settings, context.timers, writer, self._on_generation)
        self._members = MemberManager(self.settings, events, rebalancer, writer, self._new_id)
        changes: GroupChanges[ConsumerGroup] = GroupChanges(context.writer, CONSUMER_RECORDS)
        self._changes = changes
        self._offsets = OffsetManager(self.settings, events, rebalancer, writer, self._remove_records, self._topic_id)
        members = ConsumerMemberManager(
            self.settings.consumer,
            events,
            context.timers,
            changes,
            self._port,
            self._assignors,
            self._new_id,
            self._on_target,
        )
        share_changes: GroupChanges[ShareGroup] = GroupChanges(context.writer, SHARE_RECORDS)
        share_members = ShareMemberManager(self.settings.share, events, context.timers, share_changes, self._share_port)
        self._shard_handler = GroupShardHandler(
            self.settings,
            events,
            rebalancer,
            self._offsets,
            members,
            share_members,
            lambda: self.streams.members,
        )
        self.runtime = CoordinatorRuntime(self.settings.partitions, context, self._shard_handler)
        self.migration = Migration(
            self.settings, events, context.timers, members, rebalancer, writer, changes, self._port, self._new_id
        )
        self.migration.join_again = self.join
        self.consumers = ConsumerCoordination(
            events,
            members,
            writer,
            changes,
            self._port,
            self._find,
            self._shard,
            lambda: self.awaits_topic,
            self.migration,
        )
        self.shares = ShareCoordination(
            events,
            share_members,
            share_changes,
            self._share_port,
            self._find,
            self._shard,
            lambda: self.awaits_topic,
        )

    @cached_property
    def streams(self) -> StreamsCoordination:
        """Groups of Kafka Streams."""
        assert self._make_streams_port is not None
        return streams_coordination.StreamsCoordination.of(
            self._context,
            self.settings.streams,
            self._make_streams_port(),
            self._find,
            self._shard,
            lambda: self.awaits_topic,
        )

    def partition_for(self, group_id: str) -> int:
        return self.runtime.partition_for(group_id)

    def join(self, join: Join, reply: Reply[JoinResult], now_ms: int) -> None:
        """Join; a member without id creates the group."""
        with self._events:
            error, group = self._find(join.group_id)
            error = error or self._check_session_timeout(join.session_timeout_ms)
            if not error and isinstance(group, ConsumerGroup):
                if group.members:
                    self.migration.join(group, join, reply, now_ms)
                    return
                group = self.consumers.replace_by_classic(group, now_ms)
            if not error and is_streams(group) and not group.members:
                self.streams.retire(group, now_ms)
                offsets, group = group.offsets, self._create(join.group_id, now_ms)
                group.offsets = offsets
            if not error and group is not None and not isinstance(group, ClassicGroup):
                error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            if not error and group is None:
                if join.member_id != NO_MEMBER_ID:
                    error = ErrorCode.UNKNOWN_MEMBER_ID
                elif self._held is not None:
                    self._held.append(partial(self.join, join, reply))
                    return
                else:
                    group = self._create(join.group_id, now_ms)
            if error or not isinstance(group, ClassicGroup):
                self._events.reply(reply, JoinResult(error, join.member_id))
            else:
                self._members.join(group, join, reply, now_ms)

    def sync(self, sync: Sync, reply: Reply[SyncResult], now_ms: int) -> None:
        """Rebalances do not survive a change of coordinator: a loading group asks for a new one."""
        with self._events:
            error, group = self._find(sync.group_id)
            if isinstance(group, ConsumerGroup):
                self.migration.sync(group, sync, reply, now_ms)
                return
            if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                error = ErrorCode.REBALANCE_IN_PROGRESS
            if not isinstance(group, ClassicGroup):
                self._events.reply(reply, SyncResult(error or ErrorCode.UNKNOWN_MEMBER_ID))
            else:
                self._members.sync(group, sync, reply, now_ms)

    def heartbeat(self, beat: Heartbeat, now_ms: int) -> ErrorCode:
        error, group = self._find(beat.group_id)
        if isinstance(group, ConsumerGroup):
            return self.migration.heartbeat(group, beat, now_ms)
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return ErrorCode.NONE
        if not isinstance(group, ClassicGroup):
            return error or ErrorCode.UNKNOWN_MEMBER_ID
        return self._members.heartbeat(group, beat, now_ms)

    def leave(self, group_id: str, leaving: Sequence[Leaving], now_ms: int) -> LeaveResult:
        error, group = self._find(group_id)
        if error:
            return LeaveResult(error)
        if isinstance(group, ConsumerGroup):
            with self._events:
                return LeaveResult(ErrorCode.NONE, self.migration.leave(group, leaving, now_ms))
        if not isinstance(group, ClassicGroup):
            return LeaveResult(ErrorCode.NONE, (ErrorCode.UNKNOWN_MEMBER_ID,) * len(leaving))
        with self._events:
            return LeaveResult(ErrorCode.NONE, self._members.leave(group, leaving, now_ms))

    def rebalance(self, group_id: str, now_ms: int) -> ErrorCode:
        """Let a group with members rebalance."""
        error, group = self._find_classic(group_id)
        if group is None or not group.members:
            return error or ErrorCode.GROUP_ID_NOT_FOUND
        with self._events:
            self._rebalancer.maybe_prepare(group, now_ms)
        return ErrorCode.NONE

    def commit(self, commit: Commit, reply: Reply[CommitResult], now_ms: int) -> None:
        """Commit; a consumer without membership creates its group.

        Members of a missing group are unknown. After Kafka's ILLEGAL_GENERATION clients would keep the member id and
        get another error when they join; librdkafka then pauses for 2 s.
        """
        with self._events:
            error, group = self._find(commit.group_id, may_be_empty=True)
            if not error and group is None:
                if commit.generation >= 0:
                    error = ErrorCode.UNKNOWN_MEMBER_ID
                elif self._held is not None:
                    self._held.append(partial(self.commit, commit, reply))
                    return
                else:
                    group = self._create(commit.group_id, now_ms)
            if group is None:
                self._events.reply(reply, dict.fromkeys(commit.offsets, error))
            else:
                self._offsets.commit(group, commit, reply, now_ms)

    def commit_in_transaction(self, commit: TransactionalCommit, reply: Reply[CommitResult], now_ms: int) -> None:
        """Commit offsets; the caller has verified that the transaction has the group's partition."""
        with self._events:
            error, group = self._find(commit.group_id)
            error = error or self._offsets.check_transactional(group, commit)
            if not error and group is None and self.awaits_topic:
                error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS  # held, it could outlive its transaction
            if error:
                self._events.reply(reply, dict.fromkeys(commit.offsets, error))
                return
            group = group or self._create(commit.group_id, now_ms)
            shard = self.runtime.shard_for(commit.group_id)
            on_change = partial(shard.update_transaction, commit.producer_id, group)
            self._offsets.commit_in_transaction(group, commit, reply, now_ms, on_change)

    def end_transaction(self, partition: int, producer_id: int, committed: bool) -> None:
        """Apply an appended marker; the replay does it for a loading shard."""
        shard = self.runtime.shard(partition)
        if shard is not None:
            shard.end_transaction(producer_id, committed)

    def fetch(
        self,
        group_id: str,
        partitions: Sequence[TopicPartition] | None = None,
        require_stable: bool = False,
        member_id: str | None = None,
        epoch: int = NO_GENERATION,
    ) -> FetchResult:
        """Return offsets; a member of a group of KIP-848 may say who it is, and is checked then."""
        error, group = self._find(group_id, may_be_empty=True)
        if isinstance(group, ConsumerGroup) or is_streams(group):
            error = error or group.check_reader(member_id, epoch)
        return FetchResult(error) if error else self._offsets.fetch(group, partitions, require_stable)

    def count_offsets(self, group_id: str) -> int:
        _, group = self._find(group_id, may_be_empty=True)
        return 0 if group is None else len(group.offsets.committed)

    def delete_offsets(self, group_id: str, partitions: Sequence[TopicPartition], now_ms: int) -> DeleteOffsetsResult:
        error, group = self._find(group_id)
        if group is None:
            return DeleteOffsetsResult(error or ErrorCode.GROUP_ID_NOT_FOUND)
        with self._events:
            result = self._offsets.delete(group, partitions, now_ms)
            self.runtime.shard_for(group_id).remove_if_dead(group)
        return result

    async def delete_partitions(self, partitions: Collection[TopicPartition], now_ms: int) -> None:
        """Delete offsets of deleted partitions, in steps; of loading shards when they are active."""
        deleted = set(partitions)
        for state in self.runtime.loading():
            state.deleted_partitions |= deleted
        for shard, group in [(owner, group) for owner in self.runtime.shards() for group in owner.groups.values()]:
            await give_way()
            affected = list(group.offsets.partitions(deleted))
            for start in range(0, len(affected), _DELETED_OFFSETS_INLINE_MAX):
                if not group.is_dead:
                    with self._events:
                        some = set(affected[start : start + _DELETED_OFFSETS_INLINE_MAX])
                        self._shard_handler.delete_offsets(shard, group, some, now_ms)
                await give_way()

    @property
    def has_members(self) -> bool:
        return any(group.members for group in self.groups())

    @property
    def awaits_topic(self) -> bool:
        return self._held is not None

    def await_topic(self) -> None:
        """Answer as a coordinator without groups until `resume`: the deleted topic is being created again."""
        if self._held is None:
            self._held = []

    def resume(self, now_ms: int) -> None:
        """Handle the held requests: the topic exists again, or could not be created."""
        held, self._held = self._held or (), None
        for request in held:
            request(now_ms)

    def describe(self, group_id: str) -> GroupDescription:
        error, group = self._find(group_id, may_be_empty=True)
        if error:
            return GroupDescription(error, group_id)
        return GroupDescription(ErrorCode.NONE, group_id, GroupState.DEAD.value) if group is None else group.describe()

    def heartbeats(self, group_id: str) -> dict[str, int]:
        """Return when members were heard of last, in ms, without those that wait for a rebalance."""
        _, group = self._find(group_id, may_be_empty=True)
        if isinstance(group, ConsumerGroup):
            return self.consumers.heartbeats(group)
        if is_streams(group):
            return self.streams.heartbeats(group)
        if not isinstance(group, ClassicGroup):
            return {}
        return {
            member.member_id: member.session.due - member.session_timeout_ms
            for member in group.members.values()
            if member.session is not None and not member.is_waiting
        }

    async def list_groups(
        self, states: Collection[str] = (), types: Collection[str] = ()
    ) -> tuple[ErrorCode, list[GroupOverview]]:
        """List the groups in steps."""
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if self.runtime.loading() else ErrorCode.NONE
        state_names = {state.lower() for state in states}
        type_names = {name.lower() for name in types}
        overviews: list[GroupOverview] = []
        for group in tuple(self.groups()):
            is_of_type = not type_names or group.type.value in type_names
            if is_of_type and (not state_names or group.state.value.lower() in state_names):
                overviews.append(group.overview())
            await give_way()
        return error, overviews

    def count_groups(self) -> int:
        return sum(len(shard.groups) for shard in self.runtime.shards())

    def delete(self, group_id: str, reply: Reply[ErrorCode], now_ms: int) -> None:
        """Delete a group of any type; a share group after the states of its partitions."""
        _, group = self._find(group_id, may_be_empty=True)
        if isinstance(group, ShareGroup):
            self.shares.delete(group, reply, now_ms)
        else:
            reply(self.delete_group(group_id, now_ms))

    def delete_group(self, group_id: str, now_ms: int) -> ErrorCode:
        """Delete a group with committed offsets."""
        error, group = self._find(group_id, may_be_empty=True)
        if group is None:
            return error or ErrorCode.GROUP_ID_NOT_FOUND
        if not group.is_empty:
            return ErrorCode.NON_EMPTY_GROUP
        with self._events:
            if isinstance(group, ClassicGroup):
                for member_id in list(group.pending):
                    group.remove(member_id)
            self._offsets.remove(group, group.offsets.partitions(), now_ms)
            self.runtime.shard_for(group_id).remove_if_dead(group)
        return ErrorCode.NONE

    def _find(self, group_id: str, may_be_empty: bool = False) -> tuple[ErrorCode, Group | None]:
        if not (group_id or may_be_empty) or len(group_id.encode()) > STRING_BYTES_MAX:
            return ErrorCode.INVALID_GROUP_ID, None
        shard = self.runtime.find(group_id)
        if not isinstance(shard, ErrorCode):
            return ErrorCode.NONE, shard.groups.get(group_id)
        is_gone = self.awaits_topic and shard is ErrorCode.NOT_COORDINATOR
        return ErrorCode.NONE if is_gone else shard, None

    def _find_classic(self, group_id: str, may_be_empty: bool = False) -> tuple[ErrorCode, ClassicGroup | None]:
        """Return a classic group; members of others are unknown to requests of the classic protocol."""
        error, group = self._find(group_id, may_be_empty)
        return error, group if isinstance(group, ClassicGroup) else None

    def _remove_records(self, group: Group, now_ms: int) -> None:
        if isinstance(group, ConsumerGroup):
            self._changes.write_tombstones(group, now_ms)
        elif is_streams(group):
            self.streams.retire(group, now_ms)

    def _topic_id(self, name: str) -> UUID | None:
        shape = self._port.topic(name)
        return None if shape is None else shape.topic_id

    def _shard(self, group_id: str) -> GroupShard:
        return self.runtime.shard_for(group_id)

    def _on_target(self, group: ConsumerGroup, assignor: str) -> None:
        self._on_generation(NewGeneration(group.group_id, group.target_epoch, len(group.members), assignor))

    def _create(self, group_id: str, now_ms: int) -> ClassicGroup:
        return self.runtime.shard_for(group_id).create(group_id, self._events, now_ms)

    def groups(self) -> Iterator[Group]:
        """Yield the groups of the active shards."""
        return (group for shard in self.runtime.shards() for group in shard.groups.values())

    def _check_session_timeout(self, session_timeout_ms: int) -> ErrorCode:
        settings = self.settings
        fits = settings.min_session_timeout_ms <= session_timeout_ms <= settings.max_session_timeout_ms
        return ErrorCode.NONE if fits else ErrorCode.INVALID_SESSION_TIMEOUT
