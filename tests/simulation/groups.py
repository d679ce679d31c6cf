"""A consumer group: members share the topic's partitions, read on from committed offsets, and commit what they read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from pylogbroker.errors import ErrorCode
from pylogbroker.metadata.image import NO_LEADER, PartitionKey
from pylogbroker.wire.messages.heartbeat import HeartbeatRequest
from pylogbroker.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from pylogbroker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pylogbroker.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from pylogbroker.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.replication.invariants import Violation
from tests.simulation.clients import GROUP_COORDINATOR, Client, Consumer, Failed
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.registers import Registers
from tests.simulation.setup import TOPIC

GROUP: Final = "readers"
NO_OFFSET: Final = -1
_SESSION_MS: Final = 1500
_REBALANCE_MS: Final = 1000
COORDINATOR_MOVED: Final = frozenset(
    (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
)


async def fetch_offsets(client: Client, group: str, keys: Iterable[PartitionKey], stable: bool) -> dict[int, int]:
    """Return committed offsets by partition of one topic; raise Failed, or another error without an answer."""
    by_topic: dict[str, list[int]] = {}
    for name, index in keys:
        by_topic.setdefault(name, []).append(index)
    topics = [OffsetFetchRequestTopics(name, indexes) for name, indexes in by_topic.items()]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=topics)], require_stable=stable)
    response = await client.ask(await client.coordinator_of(GROUP_COORDINATOR, group), request)
    [answer] = response.groups
    client.check(answer.error_code)
    partitions = [partition for topic in answer.topics for partition in topic.partitions]
    for partition in partitions:
        client.check(partition.error_code)
    return {partition.partition_index: partition.committed_offset for partition in partitions}


class GroupMember(Consumer):
    def __init__(
        self,
        cluster: SimulatedCluster,
        number: int,
        read: Callable[[PartitionKey, bytes], None],
        offsets: Registers,
    ) -> None:
        super().__init__(cluster, number, read)
        self._offsets = offsets
        self._member = ""
        self._generation = -1
        self._assigned: list[PartitionKey] = []

    async def act(self) -> None:
        try:
            if self._generation < 0:
                await self._join()
            else:
                await self._work()
        except Failed as error:
            if error.code in COORDINATOR_MOVED:
                self.forget_coordinator(GROUP_COORDINATOR, GROUP)
                return
            self._generation = -1
            if error.code is ErrorCode.UNKNOWN_MEMBER_ID:
                self._member = ""
        except Violation:
            raise
        except Exception:  # no answer
            self.forget_coordinator(GROUP_COORDINATOR, GROUP)

    async def _join(self) -> None:
        coordinator = await self.coordinator_of(GROUP_COORDINATOR, GROUP)
        protocols = [JoinGroupRequestProtocol("shares", b"")]
        join = JoinGroupRequest(GROUP, _SESSION_MS, _REBALANCE_MS, self._member, None, "consumer", protocols)
        joined = await self.ask(coordinator, join)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member = joined.member_id
            return
        self.check(joined.error_code)
        self._member = joined.member_id
        synced = await self.ask(
            coordinator,
            SyncGroupRequest(
                GROUP, joined.generation_id, self._member, None, "consumer", "shares", self._shares(joined)
            ),
        )
        self.check(synced.error_code)
        self._assigned = [(TOPIC, index) for index in synced.assignment]
        self.positions = await self._committed()
        self._generation = joined.generation_id

    def _shares(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        """Return each member's partitions, a byte each; only the group's leader has the members."""
        members = sorted(member.member_id for member in joined.members)
        indexes = range(self.cluster.setup.partitions)
        return [
            SyncGroupRequestAssignment(member, bytes(indexes[number :: len(members)]))
            for number, member in enumerate(members)
        ]

    async def _committed(self) -> dict[PartitionKey, int]:
        if not self._assigned:
            return {}
        began = self._offsets.now()
        found = await fetch_offsets(self, GROUP, self._assigned, stable=False)
        for index, offset in found.items():
            self._offsets.check_read((TOPIC, index), offset, began)
        return {(TOPIC, index): max(offset, 0) for index, offset in found.items()}

    async def _work(self) -> None:
        coordinator = await self.coordinator_of(GROUP_COORDINATOR, GROUP)
        beat = await self.ask(coordinator, HeartbeatRequest(GROUP, self._generation, self._member))
        self.check(beat.error_code)
        before = dict(self.positions)
        for key in self._assigned:
            leader = await self.leader_of(key)
            if leader == NO_LEADER or not await self.read(leader, key):
                self.forget_leader(key)
        changed = [key for key in self._assigned if self.positions.get(key) != before.get(key)]
        if changed:
            await self._commit(coordinator, changed)

    async def _commit(self, coordinator: int, keys: list[PartitionKey]) -> None:
        commits = {key[1]: self._offsets.begin(key, self.positions[key]) for key in keys}
        partitions = [OffsetCommitRequestPartition(index, commit.value) for index, commit in commits.items()]
        topic = OffsetCommitRequestTopic(TOPIC, partitions)
        request = OffsetCommitRequest(GROUP, self._generation, self._member, topics=[topic])
        response = await self.ask(coordinator, request)
        [answer] = response.topics
        for partition in answer.partitions:
            if not partition.error_code:
                self._offsets.acknowledge(commits[partition.partition_index])
        for partition in answer.partitions:
            self.check(partition.error_code)


class OffsetReader(Client):
    """Checks the committed offsets once all is at rest."""

    def __init__(self, cluster: SimulatedCluster, number: int, offsets: Registers) -> None:
        super().__init__(cluster, number)
        self._offsets = offsets

    async def act(self) -> None:
        keys = [(TOPIC, index) for index in range(self.cluster.setup.partitions)]
        began = self._offsets.now()
        try:
            found = await fetch_offsets(self, GROUP, keys, stable=False)
        except Exception:
            self.forget_coordinator(GROUP_COORDINATOR, GROUP)
            return
        for index, offset in found.items():
            self._offsets.check_read((TOPIC, index), offset, began)
        self.stop()
