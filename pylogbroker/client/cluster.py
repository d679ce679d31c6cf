"""Client view of a cluster: brokers, partition leaders and coordinators.

    cluster = Cluster(reactor, settings, StaticBrokers("localhost:9092"))
    leader = cluster.leader_of("topic", 0)                      # None if unknown
    leader = await cluster.find_leader("topic", 0)              # requests metadata until there is a leader
    response = await cluster.send(leader, ProduceRequest(...))  # sent once; the caller retries
    cluster.leader_is_stale("topic", 0)                         # after NOT_LEADER_OR_FOLLOWER

Metadata is requested when missing or stale, after changes that the source reports, and every metadata.max.age.ms.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from typing import Any, TypeVar
from uuid import UUID

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.python.failure import Failure

from pylogbroker.client.coordinator_requests import (
    CoordinatorType,
    coordinator_node,
    coordinator_of,
    find_coordinator_request,
)
from pylogbroker.client.errors import NoBrokers, NotAuthenticated, NotConnected, is_retriable
from pylogbroker.client.first_contact import FirstContact
from pylogbroker.client.metadata import MetadataCache, TopicInfo
from pylogbroker.client.metadata_updater import MetadataUpdater
from pylogbroker.client.pool import ConnectionPool, Dial
from pylogbroker.client.sources import BrokerSource
from pylogbroker.client.thread_decoding import decoded
from pylogbroker.config import Values
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.rpc.backoff import Backoff
from pylogbroker.rpc.connection import BrokerConnection, connect
from pylogbroker.rpc.errors import error_of
from pylogbroker.rpc.retries import Pauses, retrying
from pylogbroker.rpc.settings import Address
from pylogbroker.wire import Request
from pylogbroker.wire.messages.find_coordinator import FindCoordinatorRequest

T = TypeVar("T")


class Cluster:
    def __init__(self, reactor: Any, settings: Values, source: BrokerSource, *, dial: Dial = connect) -> None:
        self._reactor = reactor
        self._source = source
        self._pool = ConnectionPool(reactor, settings, dial)
        self._pauses = Pauses(reactor)
        self._backoff = Backoff.of(settings)
        self._timeout = _timeout(settings)
        self._propagation = settings.integer("topic.metadata.propagation.max.ms") / 1000
        self._seconds = reactor.seconds
        self._first_contact = FirstContact(reactor.seconds, settings)
        self._updater = MetadataUpdater(
            reactor, settings, self._reachable, self._pool.honour_throttle, self._first_contact
        )
        self._metadata = self._updater.metadata
        self._leader: Callable[[tuple[str, int]], int | None] = self._metadata.leaders.get
        self._coordinators: dict[tuple[str, CoordinatorType], int] = {}
        self._looking: dict[tuple[str, CoordinatorType], list[Deferred[int]]] = {}
        self._closed = False
        self._updater.watch(lambda: self._pool.know(self._metadata.brokers))
        source.watch(self._source_changed)

    def __str__(self) -> str:
        return str(self._source)

    # requests

    def send(
        self,
        node_id: int,
        request: Request,
        *,
        expect_answer: bool = True,
        timeout: float | None = None,
        version: int | None = None,
        decode_in_thread: bool = False,
    ) -> Deferred[Any]:
        """Send once; requests to a broker keep their order. Long responses may be decoded in a thread.

        Fail with NotConnected, ConnectionLost, RequestTimedOut or Closed.
        """
        if decode_in_thread:
            return ensureDeferred(self._send_for_much(node_id, request, timeout, version))
        connection = self._pool.open_connection(node_id)
        if connection is not None:
            return self._ask(connection, request, expect_answer, timeout, version)
        return self._pool.connection(node_id).addCallback(self._ask, request, expect_answer, timeout, version)

    def send_anywhere(
        self, request: Request, *, timeout: float | None = None, version: int | None = None
    ) -> Deferred[Any]:
        """Send to any broker; raise NoBrokers or NeverReached, with the reasons, or NotAuthenticated."""
        return ensureDeferred(self._send_anywhere(request, timeout, version))

    def disconnect(self, node_id: int) -> None:
        """Drop a node's connection, so that no request waits behind unanswered ones."""
        self._pool.disconnect(node_id)

    def version_at(self, node_id: int, kind: type[Request]) -> int | None:
        """Return the version; None if not connected. Raise UnsupportedVersion."""
        connection = self._pool.newest_connection(node_id)
        return None if connection is None else connection.version_of(kind)

    async def find_version(self, node_id: int, kind: type[Request]) -> int:
        return (self._pool.newest_connection(node_id) or await self._pool.connection(node_id)).version_of(kind)

    async def _send_for_much(self, node_id: int, request: Request, timeout: float | None, version: int | None) -> Any:
        connection = self._pool.open_connection(node_id) or await self._pool.connection(node_id)
        undecoded = await connection.request(request, version=version, timeout=timeout, decode_later=True)
        return self._pool.honour_throttle(await decoded(self._reactor, connection, undecoded), connection)

    def _ask(
        self,
        connection: BrokerConnection,
        request: Request,
        expect_answer: bool = True,
        timeout: float | None = None,
        version: int | None = None,
    ) -> Deferred[Any]:
        answer = connection.request(request, version=version, expect_answer=expect_answer, timeout=timeout)
        return answer.addCallback(self._pool.honour_throttle, connection)

    async def _send_anywhere(self, request: Request, timeout: float | None, version: int | None) -> Any:
        return await self._ask(await self._reachable(), request, timeout=timeout, version=version)

    async def _reachable(self) -> BrokerConnection:
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
            why = "; ".join(failures) or "no broker is known"
            raise self._first_contact.failed(why) or NoBrokers(why)
        return connection

    async def _first_of(self, nodes: Iterable[int], failures: list[str]) -> BrokerConnection | None:
        for node_id in nodes:
            try:
                return await self._pool.connection(node_id)
            except NotAuthenticated:
                raise  # the other brokers would not take the credentials either
            except (NotConnected, KafkaError) as error:
                if str(error) not in failures:
                    failures.append(str(error))
        return None

    async def _first_brokers(self, failures: list[str]) -> list[int]:
        """Return bootstrap addresses as nodes, shuffled to spread clients."""
        try:
            addresses = await self._source.addresses()
        except Exception as error:
            failures.append(f"the bootstrap brokers are unknown: {error}")
            return []
        brokers = set(self._metadata.brokers.values())
        numbered = {-number: address for number, address in enumerate(addresses, 1) if address not in brokers}
        self._pool.know({**self._metadata.brokers, **numbered})
        nodes = list(numbered)
        random.shuffle(nodes)
        return nodes

    # topics

    def leader_of(self, topic: str, partition: int) -> int | None:
        return self._leader((topic, partition))

    def partitions_of(self, topic: str) -> int | None:
        info = self._metadata.topics.get(topic)
        return None if info is None else len(info.partitions)

    def topics(self) -> Mapping[str, TopicInfo]:
        return self._metadata.topics

    def want(self, topics: Iterable[str]) -> None:
        """Refresh these topics always, even missing ones."""
        self._updater.followed_topics.update(topics)

    def error_of_topic(self, topic: str) -> KafkaError | None:
        """Return only permanent errors."""
        error = self._metadata.errors.get(topic)
        return None if error is None or error.code.retriable else error

    def brokers(self) -> dict[int, Address]:
        return dict(self._metadata.brokers)

    async def find_leader(self, topic: str, partition: int) -> int:
        """Request metadata until there is a leader.

        Raise the last error after max.block.ms (of a producer) or default.api.timeout.ms.
        """
        return await self._found(topic, lambda: self._metadata.leader(topic, partition), _may_come)

    async def find_topic(self, topic: str) -> TopicInfo:
        """Return a topic once it exists; errors as for `find_leader`.

        A broker may create an unknown topic when it is first asked for it. So topic.metadata.propagation.max.ms begins
        with the first answer, and a request from before its end is not the last: both may take long.
        """
        until: float | None = None

        def may_come(error: BaseException, asked_at: float) -> bool:
            nonlocal until
            if not isinstance(error, KafkaError) or error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return is_retriable(error)
            if until is None:
                until = self._seconds() + self._propagation
            return self._propagation > 0 and asked_at < until

        return await self._found(topic, lambda: self._metadata.topic(topic), may_come)

    def expect_topics(self, topics: Iterable[str]) -> None:
        """Include these topics in the next requests for metadata, while they are in use."""
        for topic in topics:
            self._updater.asked_for(topic)

    async def ask_leader(self, topic: str, partition: int) -> int:
        """Like `find_leader`, but request metadata once at most."""
        self._updater.asked_for(topic)
        if self.leader_of(topic, partition) is None:
            await self.refresh()
        return self._metadata.leader(topic, partition)

    async def ask_controller(self) -> int:
        """Return the controller's node, requesting metadata once at most; raise KafkaError if there is none."""
        if self._metadata.controller_id < 0:
            await self.refresh()
        if self._metadata.controller_id < 0:
            raise error_of(ErrorCode.NOT_CONTROLLER, "the cluster has no controller now")
        return self._metadata.controller_id

    def controller_is_stale(self) -> None:
        self._metadata.controller_unknown()

    async def all_topics(self) -> dict[str, TopicInfo]:
        """Request all topics, now and in later refreshes."""
        self._updater.all_topics = True
        await self._retrying(self.refresh)
        return dict(self._metadata.topics)

    async def look_up(self, topics: Sequence[str] | None, node_id: int | None = None) -> MetadataCache:
        """Request metadata of these topics, or of all (None), once: later refreshes do not ask for them again.

        Ask broker `node_id`, or any (None).
        """
        connection = await (self._reachable() if node_id is None else self._pool.connection(node_id))
        response = await self._updater.request(connection, topics)
        self._metadata.learn_brokers(response)
        self._pool.know(self._metadata.brokers)
        metadata = MetadataCache()
        metadata.learn(response, topics)
        return metadata

    async def topics_by_id(self, topic_ids: Collection[UUID]) -> dict[UUID, str]:
        """Request topics by their ids; return the names of those that exist, and remember them."""
        response = await self._updater.request_by_id(await self._reachable(), topic_ids)
        names = {topic.topic_id: topic.name for topic in response.topics if topic.name and not topic.error_code}
        self._metadata.learn(response, names.values())
        self.expect_topics(names.values())
        return {topic_id: name for topic_id, name in names.items() if topic_id in topic_ids}

    def leader_is_stale(self, topic: str, partition: int) -> None:
        self._metadata.leader_unknown(topic, partition)
        self.refresh_soon()

    def refresh(self) -> Deferred[None]:
        """Fire with the answer to a request sent after this call."""
        return self._updater.refresh()

    def refresh_soon(self) -> None:
        """Request metadata, at most once within retry.backoff.ms."""
        self._updater.refresh_soon()

    @property
    def cluster_id(self) -> str:
        """Id of the cluster, empty before a broker has answered."""
        return self._metadata.cluster_id or ""

    @property
    def trouble(self) -> str:
        """Return why the last metadata request failed, or which topics it did not find; "" if neither."""
        return self._updater.trouble

    def watch(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call back after each refresh, until the returned function is called."""
        return self._updater.watch(callback)

    def _source_changed(self) -> None:
        if self._metadata.brokers:
            self.refresh_soon()

    async def _found(self, topic: str, look: Callable[[], T], may_come: Callable[[BaseException, float], bool]) -> T:
        """Ask until `look` returns; `may_come` gets its error, and when the last request was sent."""
        self._updater.asked_for(topic)
        try:
            return look()
        except KafkaError:
            pass
        asked_at = self._seconds()

        async def ask() -> T:
            nonlocal asked_at
            asked_at = self._seconds()
            await self.refresh()
            return look()

        return await self._retrying(ask, lambda error: may_come(error, asked_at))

    async def _retrying(
        self,
        work: Callable[[], Coroutine[Any, Any, T] | Deferred[T]],
        retriable: Callable[[BaseException], bool] = is_retriable,
    ) -> T:
        return await retrying(work, self._pauses, self._backoff, self._timeout, retriable=retriable)

    # coordinators

    async def coordinator(self, key: str, kind: CoordinatorType) -> int:
        """Return the coordinator's node (see `pool`), asking until there is one."""
        node = self._coordinators.get((key, kind))
        return await self._look_for_coordinator(key, kind) if node is None else node

    def feature_level_at(self, key: str, kind: CoordinatorType, feature: str) -> int | None:
        """Return the level of a feature of the cluster, as a coordinator said it last; None if not connected to it."""
        node = self._coordinators.get((key, kind))
        connection = None if node is None else self._pool.newest_connection(node)
        return None if connection is None else connection.feature_level(feature)

    def forget_coordinator(self, key: str, kind: CoordinatorType) -> None:
        self._coordinators.pop((key, kind), None)

    def _look_for_coordinator(self, key: str, kind: CoordinatorType) -> Deferred[int]:
        waiting = self._looking.get((key, kind))
        mine: Deferred[int] = Deferred()
        if waiting is not None:
            waiting.append(mine)
            return mine
        waiting = self._looking[key, kind] = [mine]

        def resolve(outcome: int | Failure) -> None:
            del self._looking[key, kind]
            if not isinstance(outcome, Failure):
                self._coordinators[key, kind] = outcome
            for waiter in waiting:
                waiter.callback(outcome)

        ensureDeferred(self._retrying(lambda: self._ask_coordinator(key, kind))).addBoth(resolve)
        return mine

    async def _ask_coordinator(self, key: str, kind: CoordinatorType) -> int:
        connection = await self._reachable()
        version = connection.version_of(FindCoordinatorRequest)
        request = find_coordinator_request(key, kind, version)
        answer = coordinator_of(await self._ask(connection, request, version=version), version)
        self._pool.add(answer.node_id, Address(answer.host, answer.port))
        return coordinator_node(answer.node_id) if kind is CoordinatorType.GROUP else answer.node_id

    # the end

    async def close(self) -> None:
        """Drop all connections; pending requests fail with Closed."""
        if self._closed:
            return
        self._closed = True
        self._source.close()
        self._pauses.close()
        self._updater.close()
        await self._pool.close()


def _timeout(settings: Values) -> float:
    name = "max.block.ms" if "max.block.ms" in settings.by_name() else "default.api.timeout.ms"
    return settings.integer(name) / 1000


def _may_come(error: BaseException, asked_at: float) -> bool:
    return is_retriable(error)
