"""Groups of one partition of `__consumer_offsets`, loaded and unloaded together."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final

import attrs

from pylogbroker.coordinators import EventQueue, PartitionReplay, TopicPartition
from pylogbroker.errors import ErrorCode
from pylogbroker.groups.classic.rebalance import Rebalancer
from pylogbroker.groups.classic.states import GroupState
from pylogbroker.groups.consumer.membership import ConsumerMemberManager
from pylogbroker.groups.kinds import ClassicGroup, ConsumerGroup, Group, ShareGroup, is_streams
from pylogbroker.groups.offset_manager import OffsetManager
from pylogbroker.groups.replay import ReplayedGroups
from pylogbroker.groups.requests import JoinResult, SyncResult
from pylogbroker.groups.settings import GroupSettings
from pylogbroker.groups.share.membership import ShareMemberManager
from pylogbroker.long_loops import give_way

if TYPE_CHECKING:
    from pylogbroker.groups.streams.membership import StreamsMemberManager

_GROUPS_PER_STEP: Final = 50  # with ten offsets each, a millisecond


@attrs.define(eq=False, repr=False)
class GroupShard:
    """`transactions`: open ones by producer id, with the groups of their pending offsets."""

    partition: int
    groups: dict[str, Group] = attrs.field(factory=dict)
    transactions: dict[int, set[str]] = attrs.field(factory=dict)

    def create(self, group_id: str, events: EventQueue, now_ms: int) -> ClassicGroup:
        group = self.groups[group_id] = ClassicGroup(group_id, self.partition, events, since=now_ms)
        return group

    def create_consumer_group(self, group_id: str, now_ms: int) -> ConsumerGroup:
        group = self.groups[group_id] = ConsumerGroup(group_id, self.partition, now_ms)
        return group

    def remove_if_dead(self, group: Group) -> None:
        if group.is_dead and self.groups.get(group.group_id) is group:
            del self.groups[group.group_id]

    def update_transaction(self, producer_id: int, group: Group) -> None:
        groups = self.transactions.setdefault(producer_id, set())
        if group.offsets.has_transaction(producer_id):
            groups.add(group.group_id)
        else:
            groups.discard(group.group_id)
        if not groups:
            del self.transactions[producer_id]

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        for group_id in self.transactions.pop(producer_id, ()):
            group = self.groups.get(group_id)
            if group is not None:
                group.offsets.end_transaction(producer_id, committed)


@attrs.frozen
class GroupShardHandler:
    _settings: GroupSettings
    _events: EventQueue
    _rebalancer: Rebalancer
    _offsets: OffsetManager
    _consumers: ConsumerMemberManager
    _shares: ShareMemberManager
    _streams: Callable[[], StreamsMemberManager]

    @property
    def sweep_interval_ms(self) -> int:
        return self._settings.check_interval_ms

    def new_state(self) -> ReplayedGroups:
        return ReplayedGroups()

    async def make_shard(self, replay: PartitionReplay[ReplayedGroups], now_ms: int) -> GroupShard:
        shard = GroupShard(replay.partition, transactions=replay.state.transactions)
        for group in replay.state.groups(replay.partition, self._events, now_ms):
            shard.groups[group.group_id] = group
            await give_way()
        return shard

    async def on_active(self, shard: GroupShard, state: ReplayedGroups, now_ms: int) -> None:
        """Start sessions; rebalance groups above the size limit, which may be lower now."""
        for group in list(shard.groups.values()):
            if not group.is_dead:
                self._continue(shard, group, state.deleted_partitions, now_ms)
            await give_way()

    def _continue(
        self, shard: GroupShard, group: Group, deleted_partitions: Collection[TopicPartition], now_ms: int
    ) -> None:
        if isinstance(group, ConsumerGroup):
            self._consumers.go_on(group, now_ms)
        elif isinstance(group, ShareGroup):
            self._shares.go_on(group, now_ms)
            return  # it has no offsets
        elif isinstance(group, ClassicGroup):
            self._continue_classic(group, now_ms)
        else:
            self._streams().go_on(group, now_ms)
        if deleted_partitions:
            self.delete_offsets(shard, group, deleted_partitions, now_ms)

    def _continue_classic(self, group: ClassicGroup, now_ms: int) -> None:
        for member in group.members.values():
            if member.session is None:  # else it has sent requests meanwhile
                self._rebalancer.keep_alive(group, member, now_ms)
        if len(group.members) > self._settings.max_size and group.state is GroupState.STABLE:
            self._rebalancer.prepare(group, now_ms)

    def on_unload(self, shard: GroupShard, now_ms: int) -> None:
        for group in shard.groups.values():
            group.die(now_ms)
            if isinstance(group, ConsumerGroup):
                self._consumers.stop(group, now_ms)
                continue
            if isinstance(group, ShareGroup):
                self._shares.stop(group, now_ms)
                continue
            if not isinstance(group, ClassicGroup):
                self._streams().stop(group, now_ms)
                continue
            group.stop_timers()
            for member in group.members.values():
                if member.is_waiting:
                    group.answer_join(member, JoinResult(ErrorCode.NOT_COORDINATOR, member.member_id))
                    group.answer_sync(member, SyncResult(ErrorCode.NOT_COORDINATOR))

    async def sweep(self, shard: GroupShard, now_ms: int) -> None:
        groups = list(shard.groups.values())
        for start in range(0, len(groups), _GROUPS_PER_STEP):
            for group in groups[start : start + _GROUPS_PER_STEP]:
                if isinstance(group, ShareGroup):
                    self._shares.store_again(group, now_ms)
                elif not group.is_dead:
                    self._offsets.expire(group, now_ms)
                    if isinstance(group, ConsumerGroup) and not group.is_dead:
                        self._consumers.store_again(group, now_ms)
                    elif is_streams(group) and not group.is_dead:
                        self._streams().store_again(group, now_ms)
                    shard.remove_if_dead(group)
            await give_way()

    def delete_offsets(
        self, shard: GroupShard, group: Group, deleted_partitions: Collection[TopicPartition], now_ms: int
    ) -> None:
        affected = group.offsets.partitions(deleted_partitions)
        if affected:
            self._offsets.remove(group, affected, now_ms)
            shard.remove_if_dead(group)
