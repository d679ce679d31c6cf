"""What a client knows of a cluster: its brokers, who leads which partition, who coordinates which group.

    cluster = Cluster(reactor, settings, StaticBrokers("localhost:9092"))
    leader = cluster.leader_of("topic", 0)                      # from memory: None if not known
    leader = await cluster.find_leader("topic", 0)              # asks, and waits until there is one
    response = await cluster.send(leader, ProduceRequest(...))  # sent once; whoever calls retries
    cluster.leader_is_stale("topic", 0)                         # the broker said that it is not the leader

Metadata is asked for when something is not known or has proved to be wrong, when the source of brokers tells of a
change, and every metadata.max.age.ms. One request at a time asks for all topics that anybody asked for.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine, Iterable, Mapping
from enum import IntEnum
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.python.failure import Failure

from pylogbroker.client.address import Address
from pylogbroker.client.connection import BrokerConnection, connect
from pylogbroker.client.errors import NoBrokers, NotConnected, raise_for
from pylogbroker.client.metadata import TopicInfo
from pylogbroker.client.pool import Dial, Pool, coordinator_node
from pylogbroker.client.refreshing import Refresher
from pylogbroker.client.retrying import Backoff, Pauses, retrying
from pylogbroker.client.sources import BrokerSource
from pylogbroker.config import Values
from pylogbroker.errors import KafkaError
from pylogbroker.wire import Request
from pylogbroker.wire.messages.find_coordinator import Coordinator as CoordinatorAnswer
from pylogbroker.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

T = TypeVar("T")


class Coordinator(IntEnum):
    """What is coordinated, by its number in FindCoordinator."""

    GROUP = 0
    TRANSACTION = 1


class Cluster:
    """A cluster as a client sees it; connections to its brokers."""

    def __init__(self, reactor: Any, settings: Values, source: BrokerSource, *, dial: Dial = connect) -> None:
        self._source = source
        self._pool = Pool(reactor, settings, dial)
        self._pauses = Pauses(reactor)
        self._backoff = Backoff.of(settings)
        self._patience = _patience(settings)
        self._refresher = Refresher(reactor, settings, self._reachable, self._pool.heed)
        self._metadata = self._refresher.metadata
        self._leader: Callable[[tuple[str, int]], int | None] = self._metadata.leaders.get
        self._coordinators: dict[tuple[str, Coordinator], int] = {}
        self._looking: dict[tuple[str, Coordinator], list[Deferred[int]]] = {}
        self._closed = False
        self._refresher.watch(lambda: self._pool.know(self._metadata.brokers))
        source.watch(self._source_changed)

    def __str__(self) -> str:
        return str(self._source)

    # -- requests ------------------------------------------------------------------------------------------------

    def send(
        self,
        node_id: int,
        request: Request,
        *,
        expect_answer: bool = True,
        timeout: float | None = None,
        version: int | None = None,
    ) -> Deferred[Any]:
        """Send a request to a broker, once; requests to one broker leave in the order of the calls.

        A Deferred of the response, which fails with NotConnected, ConnectionLost, RequestTimedOut or Closed.
        """
        connection = self._pool.open_connection(node_id)
        if connection is not None:
            return self._ask(connection, request, expect_answer, timeout, version)
        return self._pool.connection(node_id).addCallback(self._ask, request, expect_answer, timeout, version)

    def send_anywhere(
        self, request: Request, *, timeout: float | None = None, version: int | None = None
    ) -> Deferred[Any]:
        """Send a request to whichever broker can be reached; NoBrokers says why none could be."""
        return ensureDeferred(self._send_anywhere(request, timeout, version))

    def hang_up(self, node_id: int) -> None:
        """Drop the connection to a node: nothing waits any longer behind what it has not answered."""
        self._pool.hang_up(node_id)

    def version_at(self, node_id: int, kind: type[Request]) -> int | None:
        """The version in which a broker would be asked, if it is connected; UnsupportedVersion if in none."""
        connection = self._pool.newest_connection(node_id)
        return None if connection is None else connection.version_of(kind)

    async def find_version(self, node_id: int, kind: type[Request]) -> int:
        """The same; connects if need be."""
        return (self._pool.newest_connection(node_id) or await self._pool.connection(node_id)).version_of(kind)

    def _ask(
        self,
        connection: BrokerConnection,
        request: Request,
        expect_answer: bool = True,
        timeout: float | None = None,
        version: int | None = None,
    ) -> Deferred[Any]:
        answer = connection.request(request, version=version, expect_answer=expect_answer, timeout=timeout)
        return answer.addCallback(self._pool.heed, connection)

    async def _send_anywhere(self, request: Request, timeout: float | None, version: int | None) -> Any:
        return await self._ask(await self._reachable(), request, timeout=timeout, version=version)

    async def _reachable(self) -> BrokerConnection:
        """A connection: the least busy one, or else to the first broker that can be connected to."""
        connection = self._pool.idlest()
        if connection is not None:
            return connection
        failures: list[str] = []
        brokers = list(self._metadata.brokers)
        random.shuffle(brokers)
        connection = await self._first_of(brokers, failures)
        if connection is None:
            connection = await self._first_of(await self._first_brokers(failures), failures)
        if connection is None:
            raise NoBrokers("; ".join(failures) or "no brokers are known")
        return connection

    async def _first_of(self, nodes: Iterable[int], failures: list[str]) -> BrokerConnection | None:
        for node_id in nodes:
            try:
                return await self._pool.connection(node_id)
            except (NotConnected, KafkaError) as error:
                if str(error) not in failures:
                    failures.append(str(error))
        return None

    async def _first_brokers(self, failures: list[str]) -> list[int]:
        """The numbers given to the source's addresses; in any order, so that not all clients begin with the same."""
        try:
            addresses = await self._source.addresses()
        except Exception as error:
            failures.append(f"brokers to begin with are not known: {error}")
            return []
        known = set(self._metadata.brokers.values())
        numbered = {-number: address for number, address in enumerate(addresses, 1) if address not in known}
        self._pool.know({**self._metadata.brokers, **numbered})
        nodes = list(numbered)
        random.shuffle(nodes)
        return nodes

    # -- topics --------------------------------------------------------------------------------------------------

    def leader_of(self, topic: str, partition: int) -> int | None:
        """The broker that leads a partition, if it is known."""
        return self._leader((topic, partition))

    def leader_epoch_of(self, topic: str, partition: int) -> int:
        """The partition's leader epoch, or -1 if it is not known."""
        info = self._metadata.topics.get(topic)
        return info.partitions[partition].leader_epoch if info and 0 <= partition < len(info.partitions) else -1

    def partitions_of(self, topic: str) -> int | None:
        """The number of a topic's partitions, if it is known."""
        info = self._metadata.topics.get(topic)
        return None if info is None else len(info.partitions)

    def topics(self) -> Mapping[str, TopicInfo]:
        """The topics that are known, by name: from memory."""
        return self._metadata.topics

    def want(self, topics: Iterable[str]) -> None:
        """Let every refresh ask for these too, whether they exist or not."""
        self._refresher.wanted.update(topics)

    def refusal_of(self, topic: str) -> KafkaError | None:
        """Why the topic cannot be known, if that will not pass by itself."""
        error = self._metadata.errors.get(topic)
        return None if error is None or error.code.retriable else error

    def brokers(self) -> dict[int, Address]:
        """The brokers that are known, by number."""
        return dict(self._metadata.brokers)

    async def find_leader(self, topic: str, partition: int) -> int:
        """The broker that leads a partition, asked for until there is one.

        After max.block.ms (of a producer) or default.api.timeout.ms, raises why there is none.
        """
        return await self._found(topic, lambda: self._metadata.leader(topic, partition))

    async def find_topic(self, topic: str) -> TopicInfo:
        """A topic, asked for until there is one, like `find_leader`."""
        return await self._found(topic, lambda: self._metadata.topic(topic))

    async def all_topics(self) -> dict[str, TopicInfo]:
        """All topics of the cluster, asked for now. From then on every refresh asks for all."""
        self._refresher.all_topics = True
        await self._retrying(self.refresh)
        return dict(self._metadata.topics)

    def leader_is_stale(self, topic: str, partition: int) -> None:
        """Somebody was told that the leader is another one, or could not reach it: ask anew."""
        self._metadata.leader_unknown(topic, partition)
        self.refresh_soon()

    def refresh(self) -> Deferred[None]:
        """Ask for metadata; fires with the answer to a request that is sent from now on."""
        return self._refresher.refresh()

    def refresh_soon(self) -> None:
        """Ask for metadata, but not twice within retry.backoff.ms, and do not wait for it."""
        self._refresher.refresh_soon()

    @property
    def trouble(self) -> str:
        """Why no broker could be asked the last time; "" if one could."""
        return self._refresher.trouble

    def watch(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call back after each refresh; returns what ends that."""
        return self._refresher.watch(callback)

    def _source_changed(self) -> None:
        if self._metadata.brokers:
            self.refresh_soon()

    async def _found(self, topic: str, look: Callable[[], T]) -> T:
        self._refresher.asked_for(topic)
        try:
            return look()
        except KafkaError:
            pass

        async def ask() -> T:
            await self.refresh()
            return look()

        return await self._retrying(ask)

    async def _retrying(self, work: Callable[[], Coroutine[Any, Any, T] | Deferred[T]]) -> T:
        return await retrying(work, self._pauses, self._backoff, self._patience)

    # -- coordinators --------------------------------------------------------------------------------------------

    async def coordinator(self, key: str, kind: Coordinator) -> int:
        """The node that coordinates a group or a transactional id, asked for until there is one.

        For a group it is the number of a connection of its own: what is sent there does not wait behind fetches.
        """
        found = self._coordinators.get((key, kind))
        return await self._look_for_coordinator(key, kind) if found is None else found

    def forget_coordinator(self, key: str, kind: Coordinator) -> None:
        """It is not the coordinator, or cannot be reached: ask anew the next time."""
        self._coordinators.pop((key, kind), None)

    def _look_for_coordinator(self, key: str, kind: Coordinator) -> Deferred[int]:
        """Ask, or wait with whoever has asked already."""
        waiting = self._looking.get((key, kind))
        mine: Deferred[int] = Deferred()
        if waiting is not None:
            waiting.append(mine)
            return mine
        waiting = self._looking[key, kind] = [mine]

        def tell(outcome: int | Failure) -> None:
            del self._looking[key, kind]
            if not isinstance(outcome, Failure):
                self._coordinators[key, kind] = outcome
            for each in waiting:
                each.callback(outcome)

        ensureDeferred(self._retrying(lambda: self._ask_coordinator(key, kind))).addBoth(tell)
        return mine

    async def _ask_coordinator(self, key: str, kind: Coordinator) -> int:
        connection = await self._reachable()
        version = connection.version_of(FindCoordinatorRequest)
        request = FindCoordinatorRequest()
        if version >= 1:
            request.key_type = kind
        if version >= 4:
            request.coordinator_keys = [key]
        else:
            request.key = key
        response: FindCoordinatorResponse = await self._ask(connection, request, version=version)
        answer = _coordinator_of(response, version)
        raise_for(answer.error_code, answer.error_message)
        self._pool.add(answer.node_id, Address(answer.host, answer.port))
        return coordinator_node(answer.node_id) if kind is Coordinator.GROUP else answer.node_id

    # -- the end -------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Drop all connections; what waits fails with Closed."""
        if self._closed:
            return
        self._closed = True
        self._source.close()
        self._pauses.close()
        self._refresher.close()
        await self._pool.close()


def _patience(settings: Values) -> float:
    """Seconds that something is asked for before it is given up."""
    name = "max.block.ms" if "max.block.ms" in settings.by_name() else "default.api.timeout.ms"
    return settings.integer(name) / 1000


def _coordinator_of(response: FindCoordinatorResponse, version: int) -> CoordinatorAnswer:
    """The answer for one key, in the shape of the newest versions."""
    if version < 4:
        return CoordinatorAnswer(
            "", response.node_id, response.host, response.port, response.error_code, response.error_message
        )
    if len(response.coordinators) != 1:
        raise KafkaError("the answer to FindCoordinator is not about the one key that was asked for")
    return response.coordinators[0]
