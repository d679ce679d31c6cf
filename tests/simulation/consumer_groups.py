"""A consumer group of KIP-848: its coordinator assigns; members read on from committed offsets, and commit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

import attrs

from pylogbroker.errors import ErrorCode
from pylogbroker.metadata.image import NO_LEADER, PartitionKey
from pylogbroker.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    OwnedTopicPartitions,
)
from pylogbroker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.replication.invariants import Violation
from tests.simulation.clients import GROUP_COORDINATOR, Consumer, Failed
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.groups import COORDINATOR_MOVED, fetch_offsets
from tests.simulation.registers import Registers
from tests.simulation.setup import CONSUMER_SESSION_MS, TOPIC

CONSUMER_GROUP: Final = "followers"
_REBALANCE_MS: Final = 1000
_HEARTBEAT_VERSION: Final = 1
_JOINING: Final = 0
_LEAVING: Final = -1
_LEAVES: Final = 0.1
"""Share of its turns in which a member leaves, and joins again."""
_EXPELLED: Final = frozenset((ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.STALE_MEMBER_EPOCH))


@attrs.define
class Owners:
    """Members that read each partition, by what the coordinator has answered them."""

    _by_key: dict[PartitionKey, ConsumerGroupMember] = attrs.field(factory=dict)

    def take(self, key: PartitionKey, member: ConsumerGroupMember) -> None:
        """Raise Violation if another member has the partition, whose session cannot be over."""
        owner = self._by_key.get(key)
        if owner is not None and owner is not member and owner.must_be_alive:
            raise Violation(f"16: {key} is assigned to {member.name}, and {owner.name} has it")
        self._by_key[key] = member

    def leave(self, key: PartitionKey, member: ConsumerGroupMember) -> None:
        if self._by_key.get(key) is member:
            del self._by_key[key]


class ConsumerGroupMember(Consumer):
    """Member of the group. It always says what it has, as after a lost answer."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        number: int,
        read: Callable[[PartitionKey, bytes], None],
        offsets: Registers,
        owners: Owners,
    ) -> None:
        super().__init__(cluster, number, read)
        self.owned: dict[PartitionKey, None] = {}
        self._offsets = offsets
        self._owners = owners
        self._epoch = _JOINING
        self._topic_id = UUID(int=0)
        self._heard_at = 0.0
        """When the last heartbeat was sent that was answered."""

    @property
    def must_be_alive(self) -> bool:
        """The coordinator cannot have removed the member: that takes longer from the last heartbeat on.

        It removes a member whose session ends, or that does not revoke partitions in time: it may not have heard so.
        """
        return self.cluster.world.now - self._heard_at < min(CONSUMER_SESSION_MS, _REBALANCE_MS) / 1000

    async def act(self) -> None:
        try:
            if self._epoch != _JOINING and self.rng.random() < _LEAVES:
                await self.leave()
            await self._beat()
            await self._work()
        except Failed as error:
            if error.code in COORDINATOR_MOVED:
                self.forget_coordinator(GROUP_COORDINATOR, CONSUMER_GROUP)
            elif error.code in _EXPELLED:
                self._end_membership()
        except Violation:
            raise
        except Exception:  # no answer
            self.forget_coordinator(GROUP_COORDINATOR, CONSUMER_GROUP)

    async def leave(self) -> None:
        """Leave the group; raise an error without an answer."""
        self._end_membership()
        request = ConsumerGroupHeartbeatRequest(CONSUMER_GROUP, self.name, _LEAVING)
        coordinator = await self.coordinator_of(GROUP_COORDINATOR, CONSUMER_GROUP)
        self.check((await self.ask(coordinator, request, _HEARTBEAT_VERSION)).error_code)

    async def _beat(self) -> None:
        coordinator = await self.coordinator_of(GROUP_COORDINATOR, CONSUMER_GROUP)
        indexes = [index for _, index in self.owned]
        request = ConsumerGroupHeartbeatRequest(
            CONSUMER_GROUP,
            self.name,
            self._epoch,
            rebalance_timeout_ms=_REBALANCE_MS,
            subscribed_topic_names=[TOPIC],
            topic_partitions=[OwnedTopicPartitions(self._topic_id, indexes)] if indexes else [],
        )
        sent_at = self.cluster.world.now
        answer: ConsumerGroupHeartbeatResponse = await self.ask(coordinator, request, _HEARTBEAT_VERSION)
        self.check(answer.error_code)
        self._heard_at, self._epoch = sent_at, answer.member_epoch
        if answer.assignment is not None:
            topics = answer.assignment.topic_partitions
            self._topic_id = next((topic.topic_id for topic in topics), self._topic_id)
            self._own([(TOPIC, index) for topic in topics for index in topic.partitions])

    def _own(self, keys: list[PartitionKey]) -> None:
        for key in self.owned.keys() - set(keys):
            self._owners.leave(key, self)
            self.positions.pop(key, None)
        for key in keys:
            self._owners.take(key, self)
        self.owned = dict.fromkeys(keys)

    def _end_membership(self) -> None:
        self._own([])
        self._epoch = _JOINING

    async def _work(self) -> None:
        unknown = [key for key in self.owned if key not in self.positions]
        if unknown:
            await self._read_offsets(unknown)
        before = dict(self.positions)
        for key in list(self.owned):
            leader = await self.leader_of(key)
            if leader == NO_LEADER or not await self.read(leader, key):
                self.forget_leader(key)
        changed = [key for key in self.owned if self.positions[key] != before[key]]
        if changed:
            await self._commit(changed)

    async def _read_offsets(self, keys: list[PartitionKey]) -> None:
        began = self._offsets.now()
        found = await fetch_offsets(self, CONSUMER_GROUP, keys, stable=False)
        for index, offset in found.items():
            self._offsets.check_read((TOPIC, index), offset, began)
            self.positions[TOPIC, index] = max(offset, 0)

    async def _commit(self, keys: list[PartitionKey]) -> None:
        commits = {index: self._offsets.begin((TOPIC, index), self.positions[TOPIC, index]) for _, index in keys}
        partitions = [OffsetCommitRequestPartition(index, commit.value) for index, commit in commits.items()]
        topic = OffsetCommitRequestTopic(TOPIC, partitions)
        request = OffsetCommitRequest(CONSUMER_GROUP, self._epoch, self.name, topics=[topic])
        response = await self.ask(await self.coordinator_of(GROUP_COORDINATOR, CONSUMER_GROUP), request)
        [answer] = response.topics
        for partition in answer.partitions:
            if not partition.error_code:
                self._offsets.acknowledge(commits[partition.partition_index])
        for partition in answer.partitions:
            self.check(partition.error_code)


class LastMember(ConsumerGroupMember):
    """Joins once all is at rest, gets the partitions of all members that are gone, reads their offsets, and leaves."""

    async def act(self) -> None:
        await super().act()
        if len(self.owned) == len(self.positions) == self.cluster.setup.partitions:
            try:
                await self.leave()
            except Exception:
                self.forget_coordinator(GROUP_COORDINATOR, CONSUMER_GROUP)
                return
            self.stop()

    async def _commit(self, keys: list[PartitionKey]) -> Any:
        """Commit nothing: the offsets are those of the members before."""
