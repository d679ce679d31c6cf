"""Requests of a test to its cluster: topics, groups, ACLs, records. Awaited on a reactor's thread."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, Final, TypeVar

import attrs
from twisted.internet.defer import gatherResults

from pylogbroker.client.cluster import Cluster, CoordinatorType
from pylogbroker.client.errors import ConnectionLost, NotConnected, is_retriable
from pylogbroker.client.messages import Message
from pylogbroker.client.metadata import MetadataCache
from pylogbroker.client.producer import Producer
from pylogbroker.client.retries import Backoff, Pauses, retrying
from pylogbroker.client.settings import CONSUMER, read
from pylogbroker.client.simple_consumer import EARLIEST, LATEST, SimpleConsumer
from pylogbroker.client.sources import StaticBrokers
from pylogbroker.errors import ErrorCode
from pylogbroker.records import Header
from pylogbroker.rpc.errors import raise_for
from pylogbroker.rpc.settings import Address
from pylogbroker.wire import Request, UnsupportedVersion
from pylogbroker.wire.messages.create_acls import AclCreation, CreateAclsRequest
from pylogbroker.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from pylogbroker.wire.messages.delete_groups import DeleteGroupsRequest
from pylogbroker.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from pylogbroker.wire.messages.list_groups import ListGroupsRequest
from pylogbroker.wire.messages.list_transactions import ListTransactionsRequest

T = TypeVar("T")

_TIMEOUT_MS: Final = 20_000
_OPEN_STATES: Final = ("Ongoing", "PrepareCommit", "PrepareAbort")
_TOPIC_NAMES_UNTIL: Final = 5  # of DeleteTopics; then topics by name or by id
_ALREADY_GONE: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.NONE)


@attrs.frozen
class KeptNames:
    """Names of what a cluster keeps: topics without internal ones, groups, ids of open transactions."""

    topics: Collection[str]
    groups: Collection[str]
    open_transactions: Collection[str]


class Admin:
    """Requests to a cluster at `bootstrap`; `settings` are those of a client, with Kafka's names."""

    def __init__(self, reactor: Any, bootstrap: str, settings: Mapping[str, str]) -> None:
        self._reactor = reactor
        self._bootstrap = bootstrap
        self._settings = dict(settings)
        asking = {**settings, "allow.auto.create.topics": "false"}  # a deleted topic must not come back
        values = read(CONSUMER, asking)
        self._cluster = Cluster(reactor, values, StaticBrokers(bootstrap))
        self._consumers: dict[tuple[Address, str], SimpleConsumer] = {}
        self._pauses = Pauses(reactor)
        self._backoff = Backoff.of(values)
        self._timeout = values.integer("default.api.timeout.ms") / 1000

    async def close(self) -> None:
        self._pauses.close()
        for consumer in self._consumers.values():
            await consumer.close()
        await self._cluster.close()

    # topics

    async def create_topic(
        self, name: str, partitions: int, replication_factor: int, settings: Mapping[str, str]
    ) -> None:
        """Create a topic, and wait until all brokers know the leaders of its partitions; raise KafkaError."""
        configs = [CreatableTopicConfig(*each) for each in settings.items()]
        topic = CreatableTopic(name, partitions, replication_factor, configs=configs)
        answer = await self._send_to_controller(CreateTopicsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS), "topics")
        [result] = answer.topics
        raise_for(result.error_code, result.error_message)
        for node_id in await self._brokers():
            with suppress(NotConnected):  # a broker that is down learns of it when it returns
                await self._look_up([name], lambda found: _leaders(found, name), node_id)

    async def topics(self) -> dict[str, int]:
        """Return the number of partitions of each topic, without internal ones."""
        return _topics(await self._look_up(None, lambda found: found))

    async def delete_topics(self, names: Sequence[str]) -> None:
        """Delete topics; missing ones are no error."""
        if not names:
            return
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name) for name in names], timeout_ms=_TIMEOUT_MS)
        version = await self._cluster.find_version(await self._any_broker(), DeleteTopicsRequest)
        if version <= _TOPIC_NAMES_UNTIL:
            request = DeleteTopicsRequest(topic_names=list(names), timeout_ms=_TIMEOUT_MS)
        answer = await self._send_to_controller(request, "responses")
        for each in answer.responses:
            if each.error_code not in _ALREADY_GONE:
                raise_for(each.error_code, each.error_message)

    # groups and transactions

    async def groups(self) -> list[str]:
        return await self._groups(await self._brokers())

    async def _groups(self, brokers: Iterable[int]) -> list[str]:
        answers = await self._send_to_all(brokers, ListGroupsRequest())
        return sorted({group.group_id for answer in answers for group in answer.groups})

    async def delete_groups(self, names: Sequence[str]) -> None:
        """Delete groups with their offsets; groups with members raise KafkaError, and missing ones do not."""
        for name in names:
            coordinator = await self._cluster.coordinator(name, CoordinatorType.GROUP)
            answer = await self._cluster.send(coordinator, DeleteGroupsRequest(groups_names=[name]))
            [result] = answer.results
            if result.error_code not in _ALREADY_GONE:
                raise_for(result.error_code, f"group {name}")

    async def open_transactions(self) -> list[str]:
        """Return the transactional ids of open transactions."""
        return await self._open_transactions(await self._brokers())

    async def _open_transactions(self, brokers: Iterable[int]) -> list[str]:
        answers = await self._send_to_all(brokers, ListTransactionsRequest(state_filters=list(_OPEN_STATES)))
        return sorted(each.transactional_id for answer in answers for each in answer.transaction_states)

    async def inventory(self) -> KeptNames:
        """Return what the cluster keeps; a broker that cannot list transactions counts as without any."""
        found = await self._look_up(None, lambda found: found)
        groups = await self._groups(found.brokers)
        try:
            transactions = await self._open_transactions(found.brokers)
        except UnsupportedVersion:  # before Kafka 3.0
            transactions = []
        return KeptNames(_topics(found), groups, transactions)

    async def create_acls(self, creations: Sequence[AclCreation]) -> None:
        """Create ACLs at each broker, so that all know them: a broker reads those of another one later."""
        request = CreateAclsRequest(creations=list(creations))
        for node_id in await self._brokers():
            answer = await self._cluster.send(node_id, request)
            for result in answer.results:
                raise_for(result.error_code, result.error_message)

    # records

    async def produce(
        self,
        topic: str,
        values: Iterable[bytes | str | None],
        key: bytes | None,
        partition: int | None,
        timestamp_ms: int,
        headers: Sequence[Header],
    ) -> list[int]:
        """Append a record for each value; return the offsets."""
        producer = Producer(self._bootstrap, reactor=self._reactor, settings=self._settings)
        try:
            sending = [
                producer.send(topic, each, key, partition=partition, timestamp=timestamp_ms, headers=headers)
                for each in map(_encoded, values)
            ]
            return [metadata.offset for metadata in await gatherResults(sending, consumeErrors=True)]
        finally:
            await producer.close()

    async def records(self, topic: str, isolation_level: str) -> list[Message]:
        """Return all records of a topic, by partition and offset."""
        places = await self._look_up([topic], lambda found: _leaders(found, topic))
        each_of = [await self._of_partition(topic, *place, isolation_level) for place in enumerate(places)]
        return list(chain.from_iterable(each_of))

    async def _of_partition(self, topic: str, index: int, leader: Address, isolation_level: str) -> list[Message]:
        consumer = self._consumer(leader, isolation_level)

        async def read() -> list[Message]:
            [offset] = await consumer.get_offsets_before(topic, index, EARLIEST)
            [end] = await consumer.get_offsets_before(topic, index, LATEST)
            found: list[Message] = []
            while offset < end:
                messages = await consumer.fetch(topic, index, offset)
                found += messages
                if messages.next_offset <= offset:  # the log was truncated meanwhile
                    break
                offset = messages.next_offset
            return found

        return await self._retrying(read, lambda error: isinstance(error, ConnectionLost))

    def _consumer(self, address: Address, isolation_level: str) -> SimpleConsumer:
        """Return the one with this address: a connection for each call would cost more than most reads."""
        key = address, isolation_level
        if key not in self._consumers:
            settings = self._settings | {"isolation.level": isolation_level}
            self._consumers[key] = SimpleConsumer(address.host, address.port, reactor=self._reactor, settings=settings)
        return self._consumers[key]

    # brokers

    async def _look_up(
        self, topics: Sequence[str] | None, result: Callable[[MetadataCache], T], node_id: int | None = None
    ) -> T:
        """Return a result of these topics' metadata, or of all (None), at one broker or any, once there is one.

        The client of a cluster would ask again and again for all topics that tests have ever named.
        """

        async def look() -> T:
            return result(await self._cluster.look_up(topics, node_id))

        return await self._retrying(look)

    async def _retrying(
        self, work: Callable[[], Coroutine[Any, Any, T]], retriable: Callable[[BaseException], bool] = is_retriable
    ) -> T:
        return await retrying(work, self._pauses, self._backoff, self._timeout, retriable)

    async def _brokers(self) -> list[int]:
        """Ask each time: faults add brokers, and remove them again."""
        return await self._look_up([], lambda found: sorted(found.brokers))

    async def _any_broker(self) -> int:
        return (await self._brokers())[0]

    async def _send_to_all(self, brokers: Iterable[int], request: Request) -> list[Any]:
        answers = [await self._cluster.send(each, request) for each in brokers]
        for answer in answers:
            raise_for(answer.error_code, None)
        return answers

    async def _send_to_controller(self, request: Request, results: str) -> Any:
        """Return the answer of the first broker that does not name another one as the controller."""
        answer: Any = None
        for node_id in await self._brokers():
            answer = await self._cluster.send(node_id, request)
            if all(each.error_code != ErrorCode.NOT_CONTROLLER for each in getattr(answer, results)):
                break
        return answer


def _topics(found: MetadataCache) -> dict[str, int]:
    """Return the number of partitions of each topic, without internal ones."""
    named = sorted(found.topics.items())
    return {name: len(topic.partitions) for name, topic in named if not name.startswith("__")}


def _leaders(found: MetadataCache, topic: str) -> list[Address]:
    """Return the address of each partition's leader; raise KafkaError."""
    return [found.brokers[found.leader(topic, index)] for index in range(len(found.topic(topic).partitions))]


def _encoded(value: bytes | str | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
