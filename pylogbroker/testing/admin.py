"""Requests of a test to its cluster: topics, groups, ACLs, records. Awaited on a reactor's thread."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any, Final, TypeVar

import attrs
from twisted.internet.defer import FirstError, gatherResults

from pylogbroker.background import with_cleanup
from pylogbroker.client.admin.configs import ConfigAdmin, ConfigResource
from pylogbroker.client.admin.groups import GroupAdmin
from pylogbroker.client.admin.reactor_waits import ReactorWaits
from pylogbroker.client.admin.routing import ItemsFailed, Router
from pylogbroker.client.admin.topics import NewTopic, TopicAdmin
from pylogbroker.client.admin.transactions import TransactionAdmin
from pylogbroker.client.cluster import Cluster
from pylogbroker.client.errors import NotConnected, is_retriable
from pylogbroker.client.messages import Message
from pylogbroker.client.metadata import MetadataCache
from pylogbroker.client.offset_requests import list_offsets_request, listed_offset
from pylogbroker.client.producer import Producer
from pylogbroker.client.settings import CONSUMER, read
from pylogbroker.client.simple_consumer import EARLIEST, LATEST, SimpleConsumer
from pylogbroker.client.sources import StaticBrokers
from pylogbroker.config.parsing import closest
from pylogbroker.errors import ErrorCode, KafkaError, PylogbrokerError
from pylogbroker.interfaces import TopicPartition
from pylogbroker.records import Header
from pylogbroker.rpc.answer_rows import sole_row
from pylogbroker.rpc.errors import raise_for
from pylogbroker.rpc.settings import Address
from pylogbroker.testing.reactor_thread import CALL_SECONDS
from pylogbroker.wire import UnsupportedVersion
from pylogbroker.wire.messages.create_acls import AclCreation, CreateAclsRequest
from pylogbroker.wire.messages.list_offsets import ListOffsetsResponse

T = TypeVar("T")
_BrokerPlace = tuple[int, Address]
"""A broker's id and address."""

_RETRIES_MS: Final = str(round(0.8 * CALL_SECONDS * 1000))
"""Time of retries, shorter than the call's, so that a test gets the error with its cause."""

_MISSES_MAX: Final = 2
_AUTO_CREATION: Final = "auto.create.topics.enable"
_OPEN_STATES: Final = ("Ongoing", "PrepareCommit", "PrepareAbort")
_ALREADY_GONE: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.GROUP_ID_NOT_FOUND)


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
        asking = {"default.api.timeout.ms": _RETRIES_MS, **settings}
        values = read(CONSUMER, {**asking, "allow.auto.create.topics": "false"})  # a deleted topic must not come back
        self._cluster = Cluster(reactor, values, StaticBrokers(bootstrap))
        self._consumers: dict[tuple[Address, str], SimpleConsumer] = {}
        self._waits = ReactorWaits.of(reactor, values)
        self._router = Router.of(self._cluster, self._waits, values)
        self._auto_creation: bool | None = None

    @property
    def cluster_id(self) -> str:
        """Id of the cluster, empty before the first request."""
        return self._cluster.cluster_id

    async def close(self) -> None:
        self._waits.close()
        for consumer in self._consumers.values():
            await consumer.close()
        await self._cluster.close()

    # topics

    async def wait_without(self, gone: Collection[int], running: Iterable[int]) -> None:
        """Wait until brokers know that others have gone: until then, they assign partitions to them.

        Raise KafkaError if that takes long.
        """
        await self._brokers()  # learns their addresses
        for node_id in running:
            await self._look_up([], partial(_check_gone, gone, node_id), node_id)

    async def create_topic(
        self, name: str, partitions: int, replication_factor: int, settings: Mapping[str, str]
    ) -> None:
        """Create a topic, and wait until all brokers know the leaders of its partitions; raise KafkaError.

        If a topic of this name is being deleted, wait for that first.
        """
        topic = NewTopic(name, partitions, replication_factor, configs=settings)
        await self._retrying(lambda: self._create(topic), _is_being_deleted)
        for node_id in await self._brokers():
            with suppress(NotConnected):  # a broker that is down learns of it when it returns
                await self._look_up([name], lambda metadata: _leaders(metadata, name), node_id)

    async def _create(self, topic: NewTopic) -> None:
        try:
            await TopicAdmin(self._router).create([topic])
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
            if topic.name in (await self._look_up(None, lambda metadata: metadata)).topics:
                raise
            raise _BeingDeleted(error.detail, error.code) from error

    async def topics(self) -> dict[str, int]:
        """Return the number of partitions of each topic, without internal ones."""
        return _topics(await self._look_up(None, lambda metadata: metadata))

    async def delete_topics(self, names: Sequence[str]) -> None:
        """Delete topics; missing ones are no error."""
        await _unless_gone(TopicAdmin(self._router).delete(names))

    # groups and transactions

    async def groups(self) -> list[str]:
        return sorted({group.group for group in await GroupAdmin(self._router).list()})

    async def delete_groups(self, names: Sequence[str]) -> None:
        """Delete groups with their offsets; groups with members raise KafkaError, and missing ones do not."""
        await _unless_gone(GroupAdmin(self._router).delete(names))

    async def open_transactions(self) -> list[str]:
        """Return the transactional ids of open transactions."""
        transactions = await TransactionAdmin(self._router).list(states=_OPEN_STATES)
        return [transaction.transactional_id for transaction in transactions]

    async def inventory(self) -> KeptNames:
        """Return what the cluster keeps; a broker that cannot list transactions counts as without any."""
        topics, groups = await self.topics(), await self.groups()
        try:
            transactions = await self.open_transactions()
        except UnsupportedVersion:  # before Kafka 3.0
            transactions = []
        return KeptNames(topics, groups, transactions)

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
        values: Iterable[bytes | None],
        key: bytes | None,
        partition: int | None,
        timestamp_ms: int,
        headers: Sequence[Header],
    ) -> list[int]:
        """Append a record for each value; return the offsets. Raise the error of one that fails."""
        settings = {"max.block.ms": _RETRIES_MS, **self._settings}
        await self._check_exists_or_is_created(topic)
        producer = Producer(self._bootstrap, reactor=self._reactor, settings=settings)

        async def send_all() -> list[int]:
            try:
                sending = [
                    producer.send(topic, value, key, partition=partition, timestamp=timestamp_ms, headers=headers)
                    for value in values
                ]
                return [metadata.offset for metadata in await gatherResults(sending, consumeErrors=True)]
            except FirstError as failed:
                raise failed.subFailure.value or failed from None

        return await with_cleanup(send_all(), producer.close)

    async def records(self, topic: str, isolation_level: str) -> list[Message]:
        """Return all records of a topic, by partition and offset.

        After an election, wait until the new leader shows what the former one has acknowledged.
        """
        places = await self._leaders_of(topic)
        each_of = [
            await self._of_partition((topic, index), leader, isolation_level) for index, leader in enumerate(places)
        ]
        return list(chain.from_iterable(each_of))

    async def _of_partition(
        self, partition: TopicPartition, leader: _BrokerPlace, isolation_level: str
    ) -> list[Message]:
        leaders, (topic, index) = [leader], partition

        async def read() -> list[Message]:
            node_id, address = leaders.pop() if leaders else (await self._leaders_of(topic))[index]
            offset = await self._offset(node_id, partition, EARLIEST, isolation_level)
            end = await self._offset(node_id, partition, LATEST, isolation_level)
            consumer = self._consumer(address, isolation_level)
            records: list[Message] = []
            while offset < end:
                messages = await consumer.fetch(topic, index, offset)
                records += messages
                if messages.next_offset <= offset:  # the log was truncated meanwhile
                    break
                offset = messages.next_offset
            return records

        return await self._retrying(read)

    async def _offset(self, node_id: int, partition: TopicPartition, time: int, isolation_level: str) -> int:
        """Ask a leader in the newest version: in version 0, a new one does not reject a high watermark that lags."""
        request = list_offsets_request({partition: time}, isolation_level == "read_committed")
        answer: ListOffsetsResponse = await self._cluster.send(node_id, request)
        listed = sole_row(answer, "topics.partitions", node_id, partition_index=partition[1])
        raise_for(listed.error_code)
        return listed_offset(listed)

    def _consumer(self, address: Address, isolation_level: str) -> SimpleConsumer:
        """Return the one with this address: a connection for each call would cost more than most reads."""
        key = address, isolation_level
        if key not in self._consumers:
            settings = self._settings | {"isolation.level": isolation_level}
            self._consumers[key] = SimpleConsumer(address.host, address.port, reactor=self._reactor, settings=settings)
        return self._consumers[key]

    async def _check_exists_or_is_created(self, topic: str) -> None:
        """Raise NoSuchTopic for a topic that is missing, and that no request creates: clients would wait for it."""
        if await self._look_up([topic], lambda metadata: _is_known(metadata, topic)) or await self._creates_topics():
            return
        try:
            await self._leaders_of(topic)
        except NoSuchTopic as error:
            raise NoSuchTopic(f"{error.detail} ({_AUTO_CREATION} is false)", error.code) from None

    async def _creates_topics(self) -> bool:
        """Ask once: a broker has to be restarted for another value of the setting."""
        if self._auto_creation is None:
            broker = ConfigResource.broker(next(iter(await self._brokers())))
            try:
                configs = await ConfigAdmin(self._router).describe([broker], [_AUTO_CREATION])
            except PylogbrokerError:  # the user may not ask
                self._auto_creation = True
            else:
                self._auto_creation = configs[broker][_AUTO_CREATION].value != "false"
        return self._auto_creation

    async def _leaders_of(self, topic: str) -> list[_BrokerPlace]:
        """Return the leader of each partition once there are some; raise NoSuchTopic if no broker knows the topic.

        The brokers are asked twice: they learn of a new topic one after the other.
        """
        misses = 0

        async def look() -> list[_BrokerPlace]:
            nonlocal misses
            metadata = await self._cluster.look_up([topic])
            if not _is_known(metadata, topic):
                names = await self._names()
                misses += topic not in names
                if misses == _MISSES_MAX:
                    near = closest(topic, names)
                    hint = f"; did you mean {near}?" if near else ""
                    raise NoSuchTopic(f"there is no topic {topic}{hint}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return _leaders(metadata, topic)

        return await self._retrying(look, lambda error: is_retriable(error) and not isinstance(error, NoSuchTopic))

    # brokers

    async def _names(self) -> set[str]:
        """Return the names of all topics that any broker knows."""
        names = set[str]()
        for node_id in await self._brokers():
            with suppress(NotConnected):  # it is down
                metadata = await self._cluster.look_up(None, node_id)
                names |= metadata.topics.keys() | metadata.errors.keys()
        return names

    async def _look_up(
        self, topics: Sequence[str] | None, result: Callable[[MetadataCache], T], node_id: int | None = None
    ) -> T:
        """Return a result of these topics' metadata, or of all (None), at one broker or any, once there is one.

        The client of a cluster would ask again and again for all topics that tests have ever named.
        """

        async def look() -> T:
            return result(await self._cluster.look_up(topics, node_id))

        return await self._retrying(look, is_retriable if node_id is None else _is_retriable_there)

    async def _retrying(
        self, work: Callable[[], Coroutine[Any, Any, T]], retriable: Callable[[BaseException], bool] = is_retriable
    ) -> T:
        return await self._waits.retrying(work, retriable)

    async def _brokers(self) -> list[int]:
        """Ask each time: faults add brokers, and remove them again."""
        return await self._look_up([], lambda metadata: sorted(metadata.brokers))


class NoSuchTopic(KafkaError):
    """No broker knows the topic."""


class _BeingDeleted(KafkaError):
    """A topic cannot be created, because another one of its name is being deleted."""


def _is_being_deleted(error: BaseException) -> bool:
    return isinstance(error, _BeingDeleted)


def _is_retriable_there(error: BaseException) -> bool:
    """Return whether to ask the same broker again."""
    return is_retriable(error) and not isinstance(error, NotConnected)


async def _unless_gone(deletion: Awaitable[None]) -> None:
    """Await a deletion; raise its first error, except for items that are missing."""
    try:
        await deletion
    except ItemsFailed as failed:
        failures: list[Exception] = list(failed.errors.values())
    except KafkaError as error:
        failures = [error]
    else:
        return
    for failure in failures:
        if not isinstance(failure, KafkaError) or failure.code not in _ALREADY_GONE:
            raise failure


def _topics(metadata: MetadataCache) -> dict[str, int]:
    """Return the number of partitions of each topic, without internal ones."""
    named = sorted(metadata.topics.items())
    return {name: len(topic.partitions) for name, topic in named if not name.startswith("__")}


def _is_known(metadata: MetadataCache, topic: str) -> bool:
    error = metadata.errors.get(topic)
    return error is None or error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _leaders(metadata: MetadataCache, topic: str) -> list[_BrokerPlace]:
    """Return each partition's leader; raise KafkaError."""
    leaders = [metadata.leader(topic, index) for index in range(len(metadata.topic(topic).partitions))]
    return [(node_id, metadata.brokers[node_id]) for node_id in leaders]


def _check_gone(gone: Collection[int], broker: int, metadata: MetadataCache) -> None:
    listed = sorted(metadata.brokers.keys() & gone)
    if listed:
        raise KafkaError(f"broker {broker} does not know yet that {listed} are down", ErrorCode.REQUEST_TIMED_OUT)
