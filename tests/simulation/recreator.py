"""A client that deletes a topic and creates it again, and writes to it in between.

Each value names the topic's id: what is read belongs to the topic that is there, and a new topic begins empty.
"""

from __future__ import annotations

from typing import Final

from pylogbroker.errors import ErrorCode
from pylogbroker.metadata.image import NO_LEADER, PartitionKey
from pylogbroker.records import Record, build
from pylogbroker.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from pylogbroker.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from pylogbroker.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.cluster.replica_logs import records_in
from tests.replication.invariants import Violation
from tests.simulation.clients import Client, Failed
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.setup import RECREATED

_PARTITIONS: Final = 2
_DELETED_SHARE: Final = 0.2
_TIMEOUT_MS: Final = 1000


class Recreator(Client):
    def __init__(self, cluster: SimulatedCluster, number: int) -> None:
        super().__init__(cluster, number)
        self.deletions = 0
        self.acknowledged: dict[PartitionKey, list[bytes]] = {}
        self.uncertain: set[bytes] = set()
        """Values without an answer: they may be written at any time."""
        self._written = 0

    @property
    def topic_id(self) -> bytes | None:
        """Return the id of the topic that is stored."""
        topic_id = self.cluster.stored.topic_id(RECREATED)
        return None if topic_id is None else topic_id.bytes

    async def act(self) -> None:
        found = self.topic_id
        if found is None:
            await self._create()
        elif self.rng.random() < _DELETED_SHARE:
            await self._delete()
        else:
            await self._write(found, (RECREATED, self.rng.randrange(_PARTITIONS)))

    async def _create(self) -> None:
        setup = self.cluster.setup
        configs = [CreatableTopicConfig("min.insync.replicas", str(setup.min_insync_replicas))]
        topic = CreatableTopic(RECREATED, _PARTITIONS, setup.replicas, configs=configs)
        await self.try_to_ask(self.any_broker(), CreateTopicsRequest([topic], timeout_ms=_TIMEOUT_MS))

    async def _delete(self) -> None:
        request = DeleteTopicsRequest([DeleteTopicState(RECREATED)], timeout_ms=_TIMEOUT_MS)
        response = await self.try_to_ask(self.any_broker(), request)
        self.deletions += response is not None and not response.responses[0].error_code

    async def _write(self, topic_id: bytes, key: PartitionKey) -> None:
        self._written += 1
        value = topic_id + b":%d" % self._written
        self.uncertain.add(value)
        leader = await self.leader_of(key)
        if leader == NO_LEADER:
            return
        batch = build([Record(0, int(self.cluster.world.now * 1000), None, value)])
        data = TopicProduceData(key[0], [PartitionProduceData(key[1], batch)])
        request = ProduceRequest(acks=-1, timeout_ms=_TIMEOUT_MS, topic_data=[data])
        response = await self.try_to_ask(leader, request)
        if response is None or response.responses[0].partition_responses[0].error_code:
            self.forget_leader(key)
            return
        self.uncertain.discard(value)
        self.acknowledged.setdefault(key, []).append(value)


class RecreatedReader(Client):
    """Checks the topic's records once all is at rest."""

    def __init__(self, cluster: SimulatedCluster, number: int, recreator: Recreator) -> None:
        super().__init__(cluster, number)
        self._recreator = recreator

    async def act(self) -> None:
        topic_id = self._recreator.topic_id
        try:
            for index in range(_PARTITIONS if topic_id is not None else 0):
                key = (RECREATED, index)
                self._check(key, topic_id or b"", await self._values(key))
        except Failed:
            return
        self.stop()

    async def _values(self, key: PartitionKey) -> list[bytes]:
        answer = await self.fetch(await self.leader_of(key), key, 0)
        if answer is None:
            self.forget_leader(key)
            raise Failed(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return [record.value or b"" for record in records_in(bytes(answer.records or b""))]

    def _check(self, key: PartitionKey, topic_id: bytes, values: list[bytes]) -> None:
        prefix = topic_id + b":"
        acknowledged = [value for value in self._recreator.acknowledged.get(key, ()) if value.startswith(prefix)]
        certain = [value for value in values if value not in self._recreator.uncertain]
        if certain != acknowledged:
            raise Violation(f"13: {acknowledged} were written to {key} since its creation; there is {certain}")
