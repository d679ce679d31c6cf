"""Admin client over blocking connections: the parts of `pylogbroker.client.admin`, without a reactor.

    with BlockingAdmin({"bootstrap.servers": "localhost:9092"}, 30.0) as admin:
        topics = admin.topics.list()

Requests, routes and retries are those of the admin client. Its coroutines never pause here: nodes are asked one after
the other, and each await has its result at once. Not thread-safe.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import inf
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from pylogbroker.blocking.cluster import bootstrap_addresses, first_connected
from pylogbroker.blocking.connection import BlockingConnection, dial
from pylogbroker.client.admin.parts import AdminParts
from pylogbroker.client.admin.routing import Router, call_seconds
from pylogbroker.client.connection_settings import connection_settings
from pylogbroker.client.coordinator_requests import CoordinatorType, coordinator_of, find_coordinator_request
from pylogbroker.client.errors import (
    ConnectionLost,
    NeverReached,
    NoBrokers,
    NotConnected,
    RequestTimedOut,
)
from pylogbroker.client.first_contact import FirstContact
from pylogbroker.client.metadata import MetadataCache
from pylogbroker.client.settings import CLIENT, read
from pylogbroker.client.sync.parts import BlockingParts
from pylogbroker.config import Values
from pylogbroker.errors import ErrorCode, PylogbrokerError
from pylogbroker.features import on_first_use
from pylogbroker.rpc.backoff import Backoff, RetryPolicy
from pylogbroker.rpc.errors import error_of
from pylogbroker.rpc.security import security_protocol
from pylogbroker.rpc.settings import Address
from pylogbroker.wire import Request
from pylogbroker.wire.messages.find_coordinator import FindCoordinatorRequest
from pylogbroker.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

if TYPE_CHECKING:
    from pylogbroker.blocking import listener_probe
else:
    listener_probe = on_first_use("pylogbroker.blocking.listener_probe")

T = TypeVar("T")

_SENT_KEPT: Final = 8
_QUIET_SECONDS: Final = 2.0  # before errors of attempts are reported
_ADVERTISED_TRIED_MAX: Final = 5
_SECONDS_MIN: Final = 0.001  # of a system call; 0 is no limit there


class BlockingWaits:
    """`report` gets the errors of calls that are tried again for longer than a moment."""

    def __init__(self, backoff: Backoff, seconds: float, report: Callable[[str], object] | None = None) -> None:
        self._backoff = backoff
        self._seconds = seconds
        self._report = report
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
            policy = RetryPolicy(self._backoff, until, retriable, self._reporter(until))
            while True:
                try:
                    return await work()
                except Exception as error:
                    pause = policy.pause_after(error, time.monotonic())
                    last = error
                time.sleep(pause)
                if time.monotonic() >= until:
                    raise last

    def _reporter(self, until: float) -> Callable[[Exception], None]:
        """Return the function that reports errors of attempts, each text once."""
        quiet_until, reported = time.monotonic() + _QUIET_SECONDS, set[str]()

        def failed(error: Exception) -> None:
            now, text = time.monotonic(), str(error)
            if self._report is not None and now >= quiet_until and text not in reported:
                reported.add(text)
                self._report(f"{text}: trying again for up to {max(0, until - now):.0f} s")

        return failed


class BlockingNodes:
    def __init__(self, settings: Values, waits: BlockingWaits) -> None:
        self._waits = waits
        self._settings = connection_settings(settings)
        self._protocol = security_protocol(settings)
        self._bootstrap = bootstrap_addresses(settings)
        self._first_contact = FirstContact(time.monotonic, settings)
        self._first_advertised = FirstContact(time.monotonic, settings)
        self._metadata = MetadataCache()
        self._topics: frozenset[str] = frozenset()
        self._are_asked_for = False
        self._coordinators: dict[tuple[str, CoordinatorType], int] = {}
        self.sent: deque[Request] = deque(maxlen=_SENT_KEPT)  # by the present call
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
        self.sent.append(request)
        try:
            answer = connection.ask(request, version=version, timeout=seconds)
        except ConnectionLost as error:  # a listener with SASL answers ApiVersions, and then closes
            raise self._ended_search(str(error), connection.address) or error from None
        self._first_contact.succeeded()
        return answer

    def _connection(self, node_id: int) -> BlockingConnection:
        address = self._metadata.brokers.get(node_id)
        if address is None:
            raise NotConnected(f"broker {node_id} is unknown")
        try:
            return self._connected(address)
        except NotConnected as error:
            raise self._unreachable(node_id, address, error) or error from None

    def _unreachable(self, node_id: int, address: Address, error: NotConnected) -> NeverReached | None:
        """Return the error that ends the waiting for a broker, if none is reached at an address that brokers advertise.

        That is certain while another connection, to an address of `bootstrap.servers`, works.
        """
        others = [other for other in self._metadata.brokers.values() if other != address][:_ADVERTISED_TRIED_MAX]
        bootstrap = [it for at, it in self._connections.items() if it.is_open and at not in (address, *others)]
        if not bootstrap or any(map(self._is_reached, others)):
            return None
        try:
            self._ask(bootstrap[0], MetadataRequest(topics=[]))
        except (ConnectionLost, RequestTimedOut):
            return None
        text = (
            f"{error}; the cluster says that this is the address of broker {node_id}: if it is wrong for this machine,"
            " set the broker's advertised.listeners"
        )
        return self._first_advertised.failed(text, lambda: text)

    def _is_reached(self, address: Address) -> bool:
        try:
            self._connected(address)
        except NotConnected:
            return False
        return True

    def _any(self) -> BlockingConnection:
        for connection in self._connections.values():
            if connection.is_open:
                return connection
        self._first_contact.started()
        try:
            connection = first_connected([*self._metadata.brokers.values(), *self._bootstrap], self._connected)
        except NoBrokers as error:
            why, (address, cause) = str(error), error.accepted or (None, None)
            if cause is not None and cause.is_late:  # what is silent says nothing of itself, either
                raise self._first_contact.failed(why, lambda: why) or error from None
            raise self._ended_search(why, address) or error from None
        return connection

    def _ended_search(self, why: str, accepted: Address | None) -> NeverReached | None:
        """Return the error that ends the search for a first broker, if it is time; say what listens at an address."""
        if accepted is None:
            return self._first_contact.failed(why)
        return self._first_contact.failed(why, lambda: listener_probe.explained(why, accepted, self._protocol))

    def _connected(self, address: Address) -> BlockingConnection:
        connection = self._connections.get(address)
        if connection is None or not connection.is_open:
            connection = self._connections[address] = dial(address, self._settings, self._waits.seconds_left)
        return connection


class BlockingAdmin(BlockingParts):
    """Admin client with `settings` of all clients. Each call may take `seconds`.

    `report` gets texts for people while calls are tried again. `explain` gets the error of a call and its last
    requests, and returns the error to raise.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        seconds: float,
        report: Callable[[str], object] | None = None,
        explain: Callable[[PylogbrokerError, Sequence[Request]], PylogbrokerError] = lambda error, _: error,
    ) -> None:
        values = read(CLIENT, {"allow.auto.create.topics": False, **settings})
        self._seconds = seconds
        self._explain = explain
        self._waits = BlockingWaits(Backoff.of(values), call_seconds(values), report)
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
            self._nodes.sent.clear()
            try:
                next(work().__await__())
            except StopIteration as end:
                return end.value
            except PylogbrokerError as error:
                raise self._explain(error, [*self._nodes.sent]) from error.__cause__
        raise AssertionError(f"{what} waits for something that does not block")
