"""The group coordinator: finds the group that a request is for, and lets the right part of this room handle it.

    partition of __consumer_offsets    requests for its groups are answered
    ---------------------------------  -----------------------------------------------------------------------
    not owned                          NOT_COORDINATOR
    loading (`begin_load`)             COORDINATOR_LOAD_IN_PROGRESS; a heartbeat NONE, a sync REBALANCE_IN_PROGRESS
    owned   (`finish_load`)            as the group's state has it
    given up (`unload`)                NOT_COORDINATOR, and so is everything that was waiting

Nothing here reads a clock, a file or a socket. Every call takes the time; whoever drives the coordinator calls `tick`
when `next_deadline` has come, and is told through `on_earlier_deadline` when that is now earlier than before.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from functools import partial

import attrs

from pylogbroker.coordinators import EventQueue, Timer, Timers, no_wakeup
from pylogbroker.errors import ErrorCode
from pylogbroker.groups.classic.group import Group, cancel
from pylogbroker.groups.classic.membership import MemberManager
from pylogbroker.groups.classic.rebalance import NewGeneration, Rebalancer, ignore_generation
from pylogbroker.groups.classic.states import GroupState
from pylogbroker.groups.log_port import GroupLogPort
from pylogbroker.groups.offset_manager import OffsetManager, check_transactional
from pylogbroker.groups.record_writer import GroupRecordWriter
from pylogbroker.groups.replay import GroupReplay
from pylogbroker.groups.requests import (
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
    Reply,
    Sync,
    SyncResult,
    TopicPartition,
    TransactionalCommit,
)
from pylogbroker.groups.settings import GroupSettings
from pylogbroker.partition_hash import partition_for
from pylogbroker.records import LogEntry
from pylogbroker.wire import STRING_BYTES_MAX

GROUP_TYPE = "classic"
_OFFSETS_AT_ONCE_MAX = 1000  # that a group forgets without a pause


def _random_id() -> str:
    return str(uuid.uuid4())


@attrs.define(eq=False)
class _ActiveShard:
    """A partition whose groups are coordinated here."""

    groups: dict[str, Group] = attrs.field(factory=dict)
    transactions: dict[int, set[str]] = attrs.field(factory=dict)  # open ones, by producer id: the groups they touch
    sweep: Timer | None = None

    def touch(self, producer_id: int, group: Group) -> None:
        """The producer's transaction has, or has no more, something pending in the group."""
        touched = self.transactions.setdefault(producer_id, set())
        if group.offsets.has_transaction(producer_id):
            touched.add(group.group_id)
        else:
            touched.discard(group.group_id)
        if not touched:
            del self.transactions[producer_id]


@attrs.define(eq=False)
class GroupCoordinator:
    """All groups of the partitions that are owned, and every request about them."""

    settings: GroupSettings
    _log_port: GroupLogPort
    _on_earlier_deadline: Callable[[int], None] = no_wakeup
    _new_id: Callable[[], str] = _random_id
    _on_generation: Callable[[NewGeneration], None] = ignore_generation
    partitions: int = attrs.field(init=False)  # how many `__consumer_offsets` really has; set before they are loaded
    _events: EventQueue = attrs.field(factory=EventQueue, init=False)
    _timers: Timers = attrs.field(init=False)
    _writer: GroupRecordWriter = attrs.field(init=False)
    _membership: MemberManager = attrs.field(init=False)
    _rebalancer: Rebalancer = attrs.field(init=False)
    _offsets: OffsetManager = attrs.field(init=False)
    _active: dict[int, _ActiveShard] = attrs.field(factory=dict, init=False)
    _loading: dict[int, GroupReplay] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self.partitions = self.settings.partitions
        self._timers = Timers(self._on_earlier_deadline)
        self._writer = GroupRecordWriter(self._log_port, self._events)
        self._rebalancer = Rebalancer(self.settings, self._timers, self._writer, self._on_generation)
        self._membership = MemberManager(self.settings, self._events, self._rebalancer, self._writer, self._new_id)
        self._offsets = OffsetManager(self.settings, self._events, self._rebalancer, self._writer)

    # -- partitions ------------------------------------------------------------------------------------------------

    def partition_for(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` that a group belongs to."""
        return partition_for(group_id, self.partitions)

    def begin_load(self, partition: int) -> GroupReplay:
        """This broker becomes the coordinator of a partition. Replay its log into what is returned, then finish."""
        loading = self._loading[partition] = GroupReplay(partition)
        return loading

    def finish_load(self, loading: GroupReplay, now_ms: int) -> None:
        """Everything has been replayed. Nothing happens if the partition was given up in the meantime."""
        if self._loading.get(loading.partition) is not loading:
            return
        del self._loading[loading.partition]
        shard = self._active[loading.partition] = _ActiveShard(transactions=loading.transactions)
        with self._events:
            for group in loading.groups(self._events, now_ms):
                shard.groups[group.group_id] = group
                self._resume(group, now_ms)
            self._forget(list(shard.groups.values()), loading.deleted_partitions, now_ms)
        position = (loading.partition + 1) / self.partitions  # not all partitions are swept at once
        due = now_ms + max(int(self.settings.check_interval_ms * position), 1)
        shard.sweep = self._timers.start(due, partial(self._sweep, shard))

    def load(self, partition: int, entries: Iterable[LogEntry], now_ms: int) -> GroupReplay:
        """Load a partition at once."""
        loading = self.begin_load(partition)
        loading.replay(entries)
        self.finish_load(loading, now_ms)
        return loading

    def unload(self, partition: int, now_ms: int) -> None:
        """This broker is no longer the coordinator of a partition."""
        self._loading.pop(partition, None)
        shard = self._active.pop(partition, None)
        if shard is None:
            return
        cancel(shard.sweep)
        with self._events:
            for group in shard.groups.values():
                self._unload_group(group, now_ms)

    def close(self, now_ms: int) -> None:
        """Give up all partitions."""
        for partition in [*self._loading, *self._active]:
            self.unload(partition, now_ms)

    def _resume(self, group: Group, now_ms: int) -> None:
        for member in group.members.values():
            self._rebalancer.keep_alive(group, member, now_ms)
        if len(group.members) > self.settings.max_size:
            self._rebalancer.prepare(group, now_ms)

    def _unload_group(self, group: Group, now_ms: int) -> None:
        group.stop_timers()
        group.move(GroupState.DEAD, now_ms)
        for member in group.members.values():
            group.answer_join(member, JoinResult(ErrorCode.NOT_COORDINATOR, member.member_id))
            group.answer_sync(member, SyncResult(ErrorCode.NOT_COORDINATOR))

    # -- time ------------------------------------------------------------------------------------------------------

    def next_deadline(self) -> int | None:
        """When `tick` is next wanted, in ms."""
        return self._timers.next_due()

    def tick(self, now_ms: int) -> None:
        """Do what is due."""
        with self._events:
            self._timers.fire(now_ms)

    def _sweep(self, shard: _ActiveShard, now_ms: int) -> None:
        for group in list(shard.groups.values()):
            if self._offsets.expire(group, now_ms):
                del shard.groups[group.group_id]
        shard.sweep = self._timers.start(now_ms + max(self.settings.check_interval_ms, 1), partial(self._sweep, shard))

    # -- membership ------------------------------------------------------------------------------------------------

    def join(self, join: Join, reply: Reply[JoinResult], now_ms: int) -> None:
        """JoinGroup."""
        with self._events:
            error = self._check(join.group_id) or self._check_session_timeout(join.session_timeout_ms)
            group = None if error else self._find(join.group_id)
            if group is None and not error:
                if join.member_id == NO_MEMBER_ID:
                    group = self._create(join.group_id, now_ms)
                else:
                    error = ErrorCode.UNKNOWN_MEMBER_ID
            if group is None:
                self._events.enqueue(reply, JoinResult(error, join.member_id))
            else:
                self._membership.join(group, join, reply, now_ms)

    def sync(self, sync: Sync, reply: Reply[SyncResult], now_ms: int) -> None:
        """SyncGroup. What was being agreed on is lost with the coordinator, so while loading the group rebalances."""
        with self._events:
            error = self._check(sync.group_id)
            if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                error = ErrorCode.REBALANCE_IN_PROGRESS
            group = None if error else self._find(sync.group_id)
            if group is None:
                self._events.enqueue(reply, SyncResult(error or ErrorCode.UNKNOWN_MEMBER_ID))
            else:
                self._membership.sync(group, sync, reply, now_ms)

    def heartbeat(self, beat: Heartbeat, now_ms: int) -> ErrorCode:
        """Heartbeat. While loading every member is believed to be one."""
        error = self._check(beat.group_id)
        if error:
            return ErrorCode.NONE if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else error
        group = self._find(beat.group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return self._membership.heartbeat(group, beat, now_ms)

    def leave(self, group_id: str, leaving: Sequence[Leaving], now_ms: int) -> LeaveResult:
        """LeaveGroup, of one member or several."""
        error = self._check(group_id)
        if error:
            return LeaveResult(error)
        group = self._find(group_id)
        if group is None:
            return LeaveResult(ErrorCode.NONE, (ErrorCode.UNKNOWN_MEMBER_ID,) * len(leaving))
        with self._events:
            return LeaveResult(ErrorCode.NONE, self._membership.leave(group, leaving, now_ms))

    # -- offsets ---------------------------------------------------------------------------------------------------

    def commit(self, commit: Commit, reply: Reply[CommitResult], now_ms: int) -> None:
        """OffsetCommit. A consumer that does without membership makes its group by committing.

        A member of a group that does not exist is unknown, as in every other request.  Kafka answers
        ILLEGAL_GENERATION.  A client then keeps its member id and is refused once more when it joins; librdkafka pauses
        for 2 s after that.
        """
        with self._events:
            error = self._check(commit.group_id, may_be_empty=True)
            group = None if error else self._find(commit.group_id)
            if group is None and not error:
                if commit.generation < 0:
                    group = self._create(commit.group_id, now_ms)
                else:
                    error = ErrorCode.UNKNOWN_MEMBER_ID
            if group is None:
                self._events.enqueue(reply, dict.fromkeys(commit.offsets, error))
            else:
                self._offsets.commit(group, commit, reply, now_ms)

    def commit_in_transaction(self, commit: TransactionalCommit, reply: Reply[CommitResult], now_ms: int) -> None:
        """TxnOffsetCommit. That the partition of the offsets is part of the transaction has been made sure of."""
        with self._events:
            error = self._check(commit.group_id)
            group = None if error else self._find(commit.group_id)
            error = error or check_transactional(group, commit)
            if error:
                self._events.enqueue(reply, dict.fromkeys(commit.offsets, error))
                return
            group = group or self._create(commit.group_id, now_ms)
            touch = partial(self._active[group.partition].touch, commit.producer_id, group)
            self._offsets.commit_in_transaction(group, commit, reply, now_ms, touch)

    def end_transaction(self, partition: int, producer_id: int, committed: bool, now_ms: int) -> None:
        """A marker has been appended to a partition. While that is being loaded, the replay finds the marker."""
        shard = self._active.get(partition)
        if shard is None:
            return
        for group_id in shard.transactions.pop(producer_id, ()):
            group = shard.groups.get(group_id)
            if group is not None:
                group.offsets.end_transaction(producer_id, committed)

    def fetch(
        self, group_id: str, partitions: Sequence[TopicPartition] | None = None, require_stable: bool = False
    ) -> FetchResult:
        """OffsetFetch, of these partitions or of all that there are offsets for."""
        error = self._check(group_id, may_be_empty=True)
        if error:
            return FetchResult(error)
        return self._offsets.fetch(self._find(group_id), partitions, require_stable)

    def count_offsets(self, group_id: str) -> int:
        """Return how many offsets `fetch` returns of a group if all are asked for."""
        group = None if self._check(group_id, may_be_empty=True) else self._find(group_id)
        return 0 if group is None else len(group.offsets.committed)

    def delete_offsets(self, group_id: str, partitions: Sequence[TopicPartition], now_ms: int) -> DeleteOffsetsResult:
        """OffsetDelete."""
        error = self._check(group_id)
        group = None if error else self._find(group_id)
        if group is None:
            return DeleteOffsetsResult(error or ErrorCode.GROUP_ID_NOT_FOUND)
        with self._events:
            result = self._offsets.delete(group, partitions, now_ms)
            self._remove_if_dead(group)
        return result

    def remove_partitions(self, partitions: Collection[TopicPartition], now_ms: int) -> Generator[None, None, None]:
        """Forget every group's offsets of deleted partitions, also of groups that are being loaded; yield now and then.

        Groups that are loaded meanwhile have forgotten them.
        """
        deleted_partitions = set(partitions)
        for loading in self._loading.values():
            loading.deleted_partitions |= deleted_partitions
        for group in [group for shard in self._active.values() for group in shard.groups.values()]:
            yield
            concerned = list(group.offsets.partitions(deleted_partitions))
            for start in range(0, len(concerned), _OFFSETS_AT_ONCE_MAX):
                if group.state is not GroupState.DEAD:
                    with self._events:
                        self._forget([group], set(concerned[start : start + _OFFSETS_AT_ONCE_MAX]), now_ms)
                yield

    # -- administration --------------------------------------------------------------------------------------------

    @property
    def has_members(self) -> bool:
        """Whether any group has a member."""
        return any(group.members for shard in self._active.values() for group in shard.groups.values())

    def describe(self, group_id: str) -> GroupDescription:
        """DescribeGroups, of one group. One that does not exist is Dead."""
        error = self._check(group_id, may_be_empty=True)
        if error:
            return GroupDescription(error, group_id)
        group = self._find(group_id)
        return GroupDescription(ErrorCode.NONE, group_id, GroupState.DEAD.value) if group is None else group.describe()

    def list_groups(
        self, states: Collection[str] = (), types: Collection[str] = ()
    ) -> tuple[ErrorCode, list[GroupOverview]]:
        """ListGroups, of all groups or of those in one of these states and of one of these types."""
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if self._loading else ErrorCode.NONE
        wanted = {state.lower() for state in states}
        if types and GROUP_TYPE not in {name.lower() for name in types}:
            return error, []
        groups = (group for shard in self._active.values() for group in shard.groups.values())
        return error, [group.overview() for group in groups if not wanted or group.state.value.lower() in wanted]

    def delete_group(self, group_id: str, now_ms: int) -> ErrorCode:
        """DeleteGroups, of one group. It must not have members."""
        error = self._check(group_id, may_be_empty=True)
        if error:
            return error
        group = self._find(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if group.state is not GroupState.EMPTY:
            return ErrorCode.NON_EMPTY_GROUP
        with self._events:
            for member_id in list(group.pending):
                group.remove(member_id)
            self._offsets.forget(group, group.offsets.partitions(), now_ms)
            self._remove_if_dead(group)
        return ErrorCode.NONE

    # -- inside ----------------------------------------------------------------------------------------------------

    def _forget(self, groups: Iterable[Group], deleted_partitions: set[TopicPartition], now_ms: int) -> None:
        for group in groups:
            concerned = group.offsets.partitions(deleted_partitions)
            if concerned:
                self._offsets.forget(group, concerned, now_ms)
                self._remove_if_dead(group)

    def _check(self, group_id: str, may_be_empty: bool = False) -> ErrorCode:
        if not (group_id or may_be_empty) or len(group_id.encode()) > STRING_BYTES_MAX:
            return ErrorCode.INVALID_GROUP_ID
        partition = self.partition_for(group_id)
        if partition in self._active:
            return ErrorCode.NONE
        loading = partition in self._loading
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if loading else ErrorCode.NOT_COORDINATOR

    def _check_session_timeout(self, session_timeout_ms: int) -> ErrorCode:
        settings = self.settings
        fits = settings.min_session_timeout_ms <= session_timeout_ms <= settings.max_session_timeout_ms
        return ErrorCode.NONE if fits else ErrorCode.INVALID_SESSION_TIMEOUT

    def _find(self, group_id: str) -> Group | None:
        return self._active[self.partition_for(group_id)].groups.get(group_id)

    def _create(self, group_id: str, now_ms: int) -> Group:
        number = self.partition_for(group_id)
        group = self._active[number].groups[group_id] = Group(group_id, number, self._events, since=now_ms)
        return group

    def _remove_if_dead(self, group: Group) -> None:
        if group.state is GroupState.DEAD:
            del self._active[group.partition].groups[group.group_id]
