"""Clients of the simulated cluster: they speak Kafka's protocol through the product's channels.

| client   | what it does                                                                                  |
|----------|-----------------------------------------------------------------------------------------------|
| admin    | creates the topics, and waits until the cluster has them                                      |
| producer | sends batches with acks=all, each once: an error leaves its outcome unknown                   |
| repeater | an idempotent producer: repeats each batch until it is acknowledged                           |
| consumer | reads from any replica                                                                        |

`pipeliners`, `groups` and `copiers` have more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater

from pylogbroker.broker.metadata.config_resources import ResourceType
from pylogbroker.broker.requests.offered_versions import versions_in_3_9
from pylogbroker.errors import ErrorCode
from pylogbroker.metadata.image import NO_LEADER, PartitionKey
from pylogbroker.records import Record, build
from pylogbroker.rpc.broker_channel import BrokerChannel
from pylogbroker.rpc.settings import Address, ConnectionSettings
from pylogbroker.wire import Request
from pylogbroker.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from pylogbroker.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from pylogbroker.wire.messages.find_coordinator import FindCoordinatorRequest
from pylogbroker.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pylogbroker.wire.messages.init_producer_id import InitProducerIdRequest
from pylogbroker.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic
from pylogbroker.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.replication.invariants import Violation
from tests.simulation.broker import PORT, host_of
from tests.simulation.cluster import SimulatedCluster, client_host
from tests.simulation.replica_log import batches
from tests.simulation.setup import LETTERS, SHARE_GROUP, TOPIC

_RECORDS_MAX: Final = 3
_FETCH_VERSION: Final = 12  # the newest with names
_REQUEST_SECONDS: Final = 1.5
_PAUSE_SECONDS: Final = 0.3
ACKS_ALL: Final = -1
GROUP_COORDINATOR: Final = 0
TRANSACTION_COORDINATOR: Final = 1


class Failed(Exception):
    """A request was answered with an error code."""

    def __init__(self, code: int) -> None:
        self.code = ErrorCode(code)
        super().__init__(self.code.name)


@attrs.frozen
class Acknowledged:
    key: PartitionKey
    offset: int
    values: list[bytes]


class Client:
    def __init__(self, cluster: SimulatedCluster, number: int) -> None:
        self.cluster = cluster
        self.name = f"client-{number}"
        self.process = cluster.world.start_process(self.name, client_host(number))
        self.rng = cluster.world.rng
        self.is_finished = False
        self._stops = False
        self._channels: dict[int, BrokerChannel] = {}
        self._leaders: dict[PartitionKey, int] = {}
        self._epochs: dict[tuple[UUID, int], int] = {}
        self._coordinators: dict[tuple[int, str], int] = {}

    def start(self) -> None:
        Deferred.fromCoroutine(self._run()).addErrback(self.cluster.failed)

    def stop(self) -> None:
        """Send nothing new."""
        self._stops = True

    async def _run(self) -> None:
        while not self._stops:
            await self.act()
            await self.pause(self.rng.random() * _PAUSE_SECONDS)
        self.is_finished = True

    async def act(self) -> None:
        raise NotImplementedError

    def pause(self, seconds: float) -> Deferred[None]:
        return deferLater(self.process.reactor, seconds, lambda: None)

    async def ask(self, broker: int, request: Request, version: int | None = None) -> Any:
        """Return the answer; without a version, to the newest that Kafka 3.9 has, which names topics."""
        channel = self._channels.get(broker)
        if channel is None:
            settings = ConnectionSettings(self.name, setup_timeout=1.0, request_timeout=_REQUEST_SECONDS)
            channel = BrokerChannel(self.process.reactor, Address(host_of(broker), PORT), settings, in_flight_max=5)
            self._channels[broker] = channel
        return await channel.request(request, versions_in_3_9(request.api_key).last if version is None else version)

    async def try_to_ask(self, broker: int, request: Request, version: int | None = None) -> Any:
        """Return None if there is no answer."""
        try:
            return await self.ask(broker, request, version)
        except Exception:
            return None

    def any_broker(self) -> int:
        return self.rng.randint(1, self.cluster.setup.brokers)

    def any_key(self) -> PartitionKey:
        return TOPIC, self.rng.randrange(self.cluster.setup.partitions)

    async def leader_of(self, key: PartitionKey) -> int:
        """Return the leader by some broker's metadata, unless that is old; -1 if it is not known."""
        if key not in self._leaders:
            response = await self.try_to_ask(self.any_broker(), MetadataRequest([MetadataRequestTopic(name=key[0])]))
            for topic in response.topics if response is not None else ():
                self._note_leaders(topic)
            if response is not None and not response.brokers:  # some clients never ask again after that
                raise Violation("metadata without brokers")
        return self._leaders.get(key, NO_LEADER)

    def _note_leaders(self, topic: MetadataResponseTopic) -> None:
        """Note leaders, but none of an earlier epoch: Kafka's clients ask those no more, either (KIP-320)."""
        for partition in topic.partitions:
            index, epoch = partition.partition_index, partition.leader_epoch
            if partition.leader_id != NO_LEADER and epoch >= self._epochs.get((topic.topic_id, index), epoch):
                self._epochs[topic.topic_id, index] = epoch
                self._leaders[topic.name or "", index] = partition.leader_id

    def forget_leader(self, key: PartitionKey) -> None:
        self._leaders.pop(key, None)

    async def coordinator_of(self, kind: int, name: str) -> int:
        """Return the coordinator of a group or transactional id; raise Failed, or another error without an answer."""
        if (kind, name) not in self._coordinators:
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[name])
            [found] = (await self.ask(self.any_broker(), request)).coordinators
            self.check(found.error_code)
            self._coordinators[kind, name] = found.node_id
        return self._coordinators[kind, name]

    def forget_coordinator(self, kind: int, name: str) -> None:
        self._coordinators.pop((kind, name), None)

    async def fetch(
        self, broker: int, key: PartitionKey, offset: int, *, committed: bool = False
    ) -> PartitionData | None:
        """Return a broker's answer, without what aborted transactions have written if so wanted; None for an error."""
        partition = FetchPartition(key[1], fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(max_wait_ms=100, min_bytes=1, max_bytes=1 << 20, isolation_level=int(committed))
        request.topics.append(FetchTopic(key[0], partitions=[partition]))
        response = await self.try_to_ask(broker, request, _FETCH_VERSION)
        if response is None or response.error_code or not response.responses:
            return None
        [answer] = response.responses[0].partitions
        return None if answer.error_code else answer

    def check(self, code: int) -> None:
        """Raise Failed for the code of an error."""
        if code:
            raise Failed(code)


class Admin(Client):
    """Creates the topics, and sets the share group up."""

    async def act(self) -> None:
        topics = list(map(self._topic, self.cluster.setup.topics))
        response = await self.try_to_ask(self.any_broker(), CreateTopicsRequest(topics, timeout_ms=2000))
        done = (0, ErrorCode.TOPIC_ALREADY_EXISTS)
        are_there = response is not None and all(topic.error_code in done for topic in response.topics)
        if are_there and (not self.cluster.setup.share_members or await self._set_share_group_up()):
            self.stop()

    def _topic(self, name: str) -> CreatableTopic:
        setup = self.cluster.setup
        configs = [CreatableTopicConfig("min.insync.replicas", str(setup.min_insync_replicas))]
        if name == LETTERS:
            configs.append(CreatableTopicConfig("errors.deadletterqueue.group.enable", "true"))
        return CreatableTopic(name, 1 if name == LETTERS else setup.partitions, setup.replicas, configs=configs)

    async def _set_share_group_up(self) -> bool:
        settings = {
            "share.auto.offset.reset": "earliest",
            "errors.deadletterqueue.topic.name": LETTERS,
            "errors.deadletterqueue.copy.record.enable": "true",
        }
        if self.cluster.setup.shared_topic != TOPIC:
            settings["share.isolation.level"] = "read_committed"
        configs = [AlterableConfig(name, 0, value) for name, value in settings.items()]
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(ResourceType.GROUP, SHARE_GROUP, configs)])
        response = await self.try_to_ask(self.any_broker(), request)
        return response is not None and not response.responses[0].error_code


@attrs.frozen
class ProducerIdentity:
    id: int = -1
    epoch: int = -1


class Producer(Client):
    """`acknowledged` gets what brokers have acknowledged."""

    def __init__(self, cluster: SimulatedCluster, number: int, acknowledged: Callable[[Acknowledged], None]) -> None:
        super().__init__(cluster, number)
        self.sent: dict[PartitionKey, list[list[bytes]]] = {}
        self.identity = ProducerIdentity()
        self._acknowledged = acknowledged
        self._values = 0

    async def act(self) -> None:
        key = self.any_key()
        values = self._next_values(key)
        try:
            await self._produce(key, values, -1)
        except Exception:
            self.forget_leader(key)

    def _next_values(self, key: PartitionKey, count: int = 0) -> list[bytes]:
        """Return new values for a partition, by default some."""
        count = count or self.rng.randint(1, _RECORDS_MAX)
        values = [b"%s:%d" % (self.name.encode(), self._values + index) for index in range(count)]
        self._values += count
        self.sent.setdefault(key, []).append(values)
        return values

    async def _get_identity(self) -> bool:
        response = await self.try_to_ask(self.any_broker(), InitProducerIdRequest(None, 60_000))
        if response is None or response.error_code:
            return False
        self.identity = ProducerIdentity(response.producer_id, response.producer_epoch)
        return True

    async def _produce(self, key: PartitionKey, values: list[bytes], sequence: int) -> None:
        """Send a batch to the leader; raise an error unless it is acknowledged."""
        leader = await self.leader_of(key)
        if leader == NO_LEADER:
            raise Failed(ErrorCode.LEADER_NOT_AVAILABLE)
        now_ms = int(self.cluster.world.now * 1000)
        records = [Record(index, now_ms, None, value) for index, value in enumerate(values)]
        batch = build(records, producer_id=self.identity.id, producer_epoch=self.identity.epoch, base_sequence=sequence)
        data = TopicProduceData(key[0], [PartitionProduceData(key[1], batch)])
        response = await self.ask(leader, ProduceRequest(acks=ACKS_ALL, timeout_ms=2000, topic_data=[data]))
        [answer] = response.responses[0].partition_responses
        if answer.error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            return
        self.check(answer.error_code)
        self._acknowledged(Acknowledged(key, answer.base_offset, values))


class Repeater(Producer):
    def __init__(self, cluster: SimulatedCluster, number: int, acknowledged: Callable[[Acknowledged], None]) -> None:
        super().__init__(cluster, number, acknowledged)
        self._sequences: dict[PartitionKey, int] = {}

    async def act(self) -> None:
        if self.identity.id < 0 and not await self._get_identity():
            return
        key = self.any_key()
        values = self._next_values(key)
        sequence = self._sequences.get(key, 0)
        while True:
            try:
                await self._produce(key, values, sequence)
                break
            except Failed as error:
                self.cluster.check_repeatable(error.code)
            except Exception:  # no answer: the outcome is unknown
                pass
            self.forget_leader(key)
            await self.pause(self.rng.random() * _PAUSE_SECONDS)
        self._sequences[key] = sequence + len(values)


class Consumer(Client):
    """`read` gets what brokers have served: partition, offset, bytes."""

    def __init__(self, cluster: SimulatedCluster, number: int, read: Callable[[PartitionKey, bytes], None]) -> None:
        super().__init__(cluster, number)
        self.positions: dict[PartitionKey, int] = {}
        self._read = read

    async def act(self) -> None:
        key = self.any_key()
        broker = self.any_broker() if self.rng.random() < 0.5 else await self.leader_of(key)
        if broker == NO_LEADER or not await self.read(broker, key):
            self.forget_leader(key)

    async def read(self, broker: int, key: PartitionKey) -> bool:
        """Read on from the position; return whether the broker has served the partition."""
        position = self.positions.get(key, 0)
        answer = await self.fetch(broker, key, position)
        if answer is None:
            return False
        data = bytes(answer.records or b"")
        if data:
            self._read(key, data)
            for base, records, _end in batches(data):
                self.positions[key] = base + len(records)
        return True
