"""Admin client over blocking connections: the parts of `pylogbroker.client.admin`, without a reactor.

    with BlockingAdmin({"bootstrap.servers": "localhost:9092"}, 30.0) as admin:
        topics = admin.topics.list()

Requests, routes and retries are those of the admin client. Its coroutines never pause here: nodes are asked one after
the other, and each await has its result at once. Not thread-safe.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from math import inf
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from pylogbroker.blocking.cluster import bootstrap_addresses, first_connected
from pylogbroker.blocking.connection import BlockingConnection, dial
from pylogbroker.client.admin.parts import AdminParts
from pylogbroker.client.admin.routing import Router, call_seconds
from pylogbroker.client.connection_settings import connection_settings
from pylogbroker.client.coordinator_requests import CoordinatorType, coordinator_of, find_coordinator_request
from pylogbroker.client.errors import ConnectionLost, NoBrokers, NotConnected
from pylogbroker.client.first_contact import FirstContact
from pylogbroker.client.metadata import MetadataCache
from pylogbroker.client.settings import CLIENT, read
from pylogbroker.client.sync.parts import BlockingParts
from pylogbroker.config import Values
from pylogbroker.errors import ErrorCode
from pylogbroker.rpc.backoff import Backoff, RetryPolicy
from pylogbroker.rpc.errors import error_of
from pylogbroker.rpc.settings import Address
from pylogbroker.wire import Request
from pylogbroker.wire.messages.find_coordinator import FindCoordinatorRequest
from pylogbroker.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

T = TypeVar("T")

_SECONDS_MIN: Final = 0.001  # of a system call; 0 is no limit there


class BlockingWaits:
    def __init__(self, backoff: Backoff, seconds: float) -> None:
        self._backoff = backoff
        self._seconds = seconds
        self._until = inf  # monotonic time

    @property
    def seconds_left(self) -> float:
        return max(_SECONDS_MIN, self._until - time.monotonic())

    @contextmanager
    def within(self, seconds: float) -> Iterator[float]:
        """Let all waits end in `seconds`, or with those around; yield the monotonic time of the end."""
        before = self._until
        self._until = min(before, time.monotonic() + seconds)
        try:
            yield self._until
        finally:
            self._until = before

    def start(self, work: Coroutine[Any, Any, T]) -> Awaitable[T]:
        return work

    async def together(self, works: Iterable[Coroutine[Any, Any, None]]) -> None:
        for work in works:
            await work

    async def retrying(self, work: Callable[[], Awaitable[T]], retriable: Callable[[BaseException], bool]) -> T:
        with self.within(self._seconds) as until:
            policy = RetryPolicy(self._backoff, until, retriable, None)
            while True:
                try:
                    return await work()
                except Exception as error:
                    pause = policy.pause_after(error, time.monotonic())
                    last = error
                time.sleep(pause)
                if time.monotonic() >= until:
                    raise last


class BlockingNodes:
    def __init__(self, settings: Values, waits: BlockingWaits) -> None:
        self._waits = waits
        self._settings = connection_settings(settings)
        self._bootstrap = bootstrap_addresses(settings)
        self._first_contact = FirstContact(time.monotonic, settings)
        self._metadata = MetadataCache()
        self._topics: frozenset[str] = frozenset()
        self._are_asked_for = False
        self._coordinators: dict[tuple[str, CoordinatorType], int] = {}
        self._connections: dict[Address, BlockingConnection] = {}

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    def brokers(self) -> Mapping[int, Address]:
        return self._metadata.brokers

    async def refresh(self) -> None:
        topics = [MetadataRequestTopic(name=name) for name in sorted(self._topics)]
        response = self._ask(self._any(), MetadataRequest(topics=topics, allow_auto_topic_creation=False))
        self._metadata.learn(response, self._topics)

    async def ask_controller(self) -> int:
        if self._metadata.controller_id < 0:
            await self.refresh()
        if self._metadata.controller_id < 0:
            raise error_of(ErrorCode.NOT_CONTROLLER, "the cluster has no controller now")
        return self._metadata.controller_id

    def controller_is_stale(self) -> None:
        self._metadata.controller_id = -1

    def expect_topics(self, topics: Iterable[str]) -> None:
        self._topics = frozenset(topics)
        self._are_asked_for = False

    async def ask_leader(self, topic: str, partition: int) -> int:
        """Request metadata of all topics that are expected, once at most."""
        if (topic, partition) not in self._metadata.leaders and not self._are_asked_for:
            await self.refresh()
            self._are_asked_for = True
        return self._metadata.leader(topic, partition)

    def leader_is_stale(self, topic: str, partition: int) -> None:
        self._metadata.leader_unknown(topic, partition)

    async def coordinator(self, key: str, kind: CoordinatorType) -> int:
        node_id = self._coordinators.get((key, kind))
        if node_id is None:
            connection = self._any()
            version = connection.version_of(FindCoordinatorRequest)
            answer = self._ask(connection, find_coordinator_request(key, kind, version), version)
            coordinator = coordinator_of(answer, version)
            node_id = self._coordinators[key, kind] = coordinator.node_id
            self._metadata.brokers[node_id] = Address(coordinator.host, coordinator.port)
        return node_id

    def forget_coordinator(self, key: str, kind: CoordinatorType) -> None:
        self._coordinators.pop((key, kind), None)

    async def find_version(self, node_id: int, kind: type[Request]) -> int:
        return self._connection(node_id).version_of(kind)

    async def send(self, node_id: int, request: Request, *, version: int | None = None) -> Any:
        return self._ask(self._connection(node_id), request, version)

    async def send_anywhere(self, request: Request) -> Any:
        return self._ask(self._any(), request)

    def _ask(self, connection: BlockingConnection, request: Request, version: int | None = None) -> Any:
        seconds = min(self._settings.request_timeout, self._waits.seconds_left)
        try:
            answer = connection.ask(request, version=version, timeout=seconds)
        except ConnectionLost as error:  # a listener with SASL answers ApiVersions, and then closes
            raise self._first_contact.failed(str(error)) or error from None
        self._first_contact.succeeded()
        return answer

    def _connection(self, node_id: int) -> BlockingConnection:
        address = self._metadata.brokers.get(node_id)
        if address is None:
            raise NotConnected(f"broker {node_id} is unknown")
        return self._connected(address)

    def _any(self) -> BlockingConnection:
        for connection in self._connections.values():
            if connection.is_open:
                return connection
        self._first_contact.started()
        try:
            connection = first_connected([*self._metadata.brokers.values(), *self._bootstrap], self._connected)
        except NoBrokers as error:
            raise self._first_contact.failed(str(error)) or error from None
        return connection

    def _connected(self, address: Address) -> BlockingConnection:
        connection = self._connections.get(address)
        if connection is None or not connection.is_open:
            connection = self._connections[address] = dial(address, self._settings, self._waits.seconds_left)
        return connection


class BlockingAdmin(BlockingParts):
    """Admin client with `settings` of all clients. Each call may take `seconds`."""

    def __init__(self, settings: Mapping[str, Any], seconds: float) -> None:
        values = read(CLIENT, {"allow.auto.create.topics": False, **settings})
        self._seconds = seconds
        self._waits = BlockingWaits(Backoff.of(values), call_seconds(values))
        self._nodes = BlockingNodes(values, self._waits)
        self._of_router = AdminParts(Router.of(self._nodes, self._waits, values))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._nodes.close()

    def _parts(self) -> AdminParts:
        return self._of_router

    def _call(self, what: str, work: Callable[[], Awaitable[Any]], timeout: float | None) -> Any:
        with self._waits.within(self._seconds if timeout is None else timeout):
            try:
                next(work().__await__())
            except StopIteration as end:
                return end.value
        raise AssertionError(f"{what} waits for something that does not block")
