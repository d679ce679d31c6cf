"""Blocking view of a cluster: leaders, coordinators and offsets.

    cluster = BlockingCluster(settings)
    ends = cluster.offsets({("events", 0): LATEST})
    answer = cluster.retrying(lambda: cluster.leader("events", 0).ask(request))

Calls return when brokers have answered.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from types import TracebackType
from typing import Final, Self, TypeVar
from uuid import UUID

import attrs

from pylogbroker.blocking.connection import BlockingConnection, dial
from pylogbroker.client.connection_settings import connection_settings
from pylogbroker.client.coordinator_requests import CoordinatorType, coordinator_of, find_coordinator_request
from pylogbroker.client.errors import (
    ConnectionLost,
    NoBrokers,
    NotAuthenticated,
    RequestTimedOut,
    SetUpFailed,
    is_retriable,
)
from pylogbroker.client.metadata import MetadataCache, TopicInfo
from pylogbroker.client.offset_requests import list_offsets_request
from pylogbroker.config import Values
from pylogbroker.errors import ConfigError, ErrorCode, KafkaError
from pylogbroker.interfaces import TopicPartition
from pylogbroker.rpc.answer_rows import rows_by_key
from pylogbroker.rpc.backoff import Backoff, retry_blocking
from pylogbroker.rpc.errors import error_of, raise_for
from pylogbroker.rpc.settings import Address, parse_address
from pylogbroker.wire.messages.find_coordinator import FindCoordinatorRequest
from pylogbroker.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from pylogbroker.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

FIRST_CONTACT_SECONDS: Final = 10.0
T = TypeVar("T")


@attrs.frozen
class OffsetAtTime:
    """First offset at or after a time, and its timestamp; -1 without one."""

    offset: int
    timestamp: int


class BlockingCluster:
    def __init__(self, settings: Values) -> None:
        self.settings = settings
        self.connection_settings = connection_settings(settings)
        self._bootstrap = bootstrap_addresses(settings)
        self._backoff = Backoff.of(settings)
        self._metadata = MetadataCache()
        self._connections: dict[Address, BlockingConnection] = {}
        self._spares: dict[Address, BlockingConnection] = {}
        self._coordinators: dict[tuple[str, CoordinatorType], Address] = {}
        self._committed = settings.by_name().get("isolation.level") == "read_committed"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        for connections in (self._connections, self._spares):
            for connection in connections.values():
                connection.close()
            connections.clear()

    def topics(self, names: Collection[str] | None = None) -> dict[str, TopicInfo]:
        """Return existing topics of `names` (None: all), from fresh metadata."""
        self.retrying(lambda: self._refresh(names))
        return {name: info for name, info in self._metadata.topics.items() if names is None or name in names}

    def topic_id(self, name: str) -> UUID:
        """Return the id cached by `topics`."""
        return self._metadata.topic(name).topic_id

    def topic_ids(self, names: Iterable[str]) -> dict[str, UUID]:
        """Return ids cached by `topics`."""
        return {name: self.topic_id(name) for name in set(names)}

    def offsets(
        self, times: Mapping[TopicPartition, int], seconds: float | None = None
    ) -> dict[TopicPartition, OffsetAtTime]:
        """Return the first offset at or after each time in ms, or the EARLIEST or LATEST offset.

        LATEST is the high watermark; with isolation.level read_committed, the last stable offset.
        """
        answers: dict[TopicPartition, OffsetAtTime] = {}

        def rest() -> None:
            self._look_up({key: time for key, time in times.items() if key not in answers}, answers)

        self.retrying(rest, seconds)
        return answers

    def _refresh(self, names: Iterable[str] | None) -> None:
        topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        response: MetadataResponse = self.any_connection().ask(request)
        self._metadata.learn(response, names)
        for topic in response.topics:
            if topic.error_code and topic.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise_for(topic.error_code, f"topic {topic.name}: {error_of(topic.error_code).detail}")

    def _look_up(self, times: Mapping[TopicPartition, int], answers: dict[TopicPartition, OffsetAtTime]) -> None:
        """Ask each leader once; store answers before raising the last error."""
        self._know({topic for topic, _ in times})
        by_leader: dict[int, dict[TopicPartition, int]] = {}
        for key, time in times.items():
            by_leader.setdefault(self._metadata.leader(*key), {})[key] = time
        error: KafkaError | None = None
        for leader, partitions in by_leader.items():
            connection = self._idle(self.address_of(leader))
            response: ListOffsetsResponse = connection.ask(list_offsets_request(partitions, self._committed))
            rows: dict[TopicPartition, ListOffsetsPartitionResponse] = rows_by_key(
                response, "topics.partitions", leader, partitions, _key
            )
            for key, row in rows.items():
                if row.error_code:
                    error = error_of(row.error_code, f"{key[0]}/{key[1]}: {error_of(row.error_code).detail}")
                else:
                    answers[key] = OffsetAtTime(row.offset, row.timestamp)
        if error is not None:
            raise error

    def leader(self, topic: str, partition: int) -> BlockingConnection:
        """Return a connection by cached metadata; raise without a leader.

        Requests may be in flight: callers sharing it must count answers.
        """
        return self._connection(self.address_of(self.leader_id(topic, partition)))

    def leader_id(self, topic: str, partition: int) -> int:
        self._know([topic])
        return self._metadata.leader(topic, partition)

    def address_of(self, broker: int) -> Address:
        """Raise LEADER_NOT_AVAILABLE for an unknown broker."""
        address = self._metadata.brokers.get(broker)
        if address is None:
            raise error_of(ErrorCode.LEADER_NOT_AVAILABLE, f"broker {broker} leads partitions but is not available")
        return address

    def connect(self, broker: int) -> BlockingConnection:
        return dial(self.address_of(broker), self.connection_settings)

    def coordinator(self, key: str, kind: CoordinatorType) -> BlockingConnection:
        """Return an idle connection to a coordinator."""
        address = self._coordinators.get((key, kind))
        if address is None:
            address = self._coordinators[key, kind] = self._find_coordinator(key, kind)
        return self._idle(address)

    def any_connection(self) -> BlockingConnection:
        """Return any idle connection; raise NoBrokers, or NotAuthenticated."""
        for connection in self._connections.values():
            if connection.is_open and not connection.in_flight:
                return connection
        return first_connected([*self._metadata.brokers.values(), *self._bootstrap], self._idle)

    def reach(self) -> None:
        """Connect to any bootstrap server; raise NoBrokers, with the reasons.

        Drivers call this first, for at most FIRST_CONTACT_SECONDS: a wrong address is likelier than a restarting
        broker.
        """
        share = FIRST_CONTACT_SECONDS / len(self._bootstrap)

        def connect(address: Address) -> BlockingConnection:
            return self._opened(self._connections, address, share)

        try:
            self.retrying(lambda: first_connected(self._bootstrap, connect), FIRST_CONTACT_SECONDS)
        except NoBrokers as error:
            raise NoBrokers(
                f"no broker can be reached: {error}; check that one runs and that bootstrap.servers names it"
            ) from error

    def forget(self, topic: str | None = None) -> None:
        """Drop cached leaders, of one topic or all, and all coordinators."""
        names = list(self._metadata.topics) if topic is None else [topic]
        for name in names:
            info = self._metadata.topics.pop(name, None)
            for number in range(len(info.partitions) if info is not None else 0):
                self._metadata.leader_unknown(name, number)
        self._coordinators.clear()

    def retrying(self, work: Callable[[], T], seconds: float | None = None) -> T:
        """Call `work` until success, a permanent error, or `seconds` (at most default.api.timeout.ms) have passed.

        Each new attempt drops cached leaders and coordinators.
        """
        most = self.settings.integer("default.api.timeout.ms") / 1000
        longest = most if seconds is None else min(seconds, most)
        return retry_blocking(work, self._backoff, longest, retriable=is_retriable, failed=lambda _: self.forget())

    def _know(self, names: Iterable[str]) -> None:
        missing = [name for name in names if name not in self._metadata.topics]
        if missing:
            self._refresh(missing)

    def _find_coordinator(self, key: str, kind: CoordinatorType) -> Address:
        connection = self.any_connection()
        version = connection.version_of(FindCoordinatorRequest)
        answer = connection.ask(find_coordinator_request(key, kind, version), version=version)
        coordinator = coordinator_of(answer, version)
        return Address(coordinator.host, coordinator.port)

    def _idle(self, address: Address) -> BlockingConnection:
        connection = self._connection(address)
        return self._opened(self._spares, address) if connection.in_flight else connection

    def _connection(self, address: Address) -> BlockingConnection:
        return self._opened(self._connections, address)

    def _opened(
        self, connections: dict[Address, BlockingConnection], address: Address, seconds: float | None = None
    ) -> BlockingConnection:
        connection = connections.get(address)
        if connection is None or not connection.is_open:
            connection = connections[address] = dial(address, self.connection_settings, seconds)
        return connection


class LeaderConnections:
    """Exclusive connections to leaders, opened on demand and reopened after a loss."""

    def __init__(self, cluster: BlockingCluster) -> None:
        self._cluster = cluster
        self._opened: dict[int, BlockingConnection] = {}

    def to(self, leader: int) -> BlockingConnection:
        connection = self._opened.get(leader)
        if connection is None or not connection.is_open:
            connection = self._opened[leader] = self._cluster.connect(leader)
        return connection

    def in_flight(self, leader: int) -> int:
        return self._opened[leader].in_flight if leader in self._opened else 0

    def close(self) -> None:
        for connection in self._opened.values():
            connection.close()
        self._opened.clear()


def bootstrap_addresses(settings: Values) -> list[Address]:
    """Return the addresses of `bootstrap.servers`; raise ConfigError without any."""
    addresses = [parse_address(text) for text in settings.texts("bootstrap.servers") if text.strip()]
    if not addresses:
        raise ConfigError("bootstrap.servers: no brokers are given; expected host:port, separated by commas")
    return addresses


def first_connected(
    addresses: Iterable[Address], connect: Callable[[Address], BlockingConnection]
) -> BlockingConnection:
    """Return the first connection that is made; raise NoBrokers, with the reasons, or NotAuthenticated."""
    failures: list[str] = []
    accepted: tuple[Address, SetUpFailed] | None = None
    for address in dict.fromkeys(addresses):
        try:
            return connect(address)
        except NotAuthenticated:
            raise  # the other brokers would not take the credentials either
        except (ConnectionLost, RequestTimedOut, KafkaError) as error:
            failures.append(str(error))
            if accepted is None and isinstance(error, SetUpFailed):
                accepted = address, error
    raise NoBrokers("; ".join(dict.fromkeys(failures)), accepted)


def partitions_of(topics: Mapping[str, TopicInfo]) -> list[TopicPartition]:
    return [(name, number) for name in sorted(topics) for number in range(len(topics[name].partitions))]


def _key(topic: ListOffsetsTopicResponse, partition: ListOffsetsPartitionResponse) -> TopicPartition:
    return topic.name, partition.partition_index
