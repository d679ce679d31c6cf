"""Services that handlers of requests may use, as protocols; `assembly` has their implementations.

A module here and in `apis` imports no implementation.  So each can be replaced, and no import cycle arises.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol
from uuid import UUID

from twisted.internet.defer import Deferred

from pylogbroker.broker.api import Api
from pylogbroker.broker.fetch.conversion_cache import ConversionCache
from pylogbroker.broker.fetch.sessions import FetchSessions
from pylogbroker.broker.limits import PartitionAllowance
from pylogbroker.broker.local_node import LocalNode
from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.broker.runtime import Runtime
from pylogbroker.config import BrokerConfig, ConfigSource
from pylogbroker.errors import InvalidRecords, StorageFailure
from pylogbroker.groups import GroupCoordinator
from pylogbroker.metadata.topic_names import Assignment, ConfigChange, Topic
from pylogbroker.storage import Log, LogManager
from pylogbroker.transactions import MarkersCallback, TransactionCoordinator, TransactionMarker


class Topics(Protocol):
    """The topics of the cluster, and the operations that change them; they raise KafkaError."""

    @property
    def topics(self) -> Mapping[str, Topic]: ...
    def require(self, name: str, /) -> Topic: ...
    def require_id(self, topic_id: UUID, /) -> Topic: ...
    def plan_topic(
        self,
        name: str,
        partitions: int = -1,
        replication_factor: int = -1,
        assignment: Assignment | None = None,
        overrides: Mapping[str, str] | None = None,
        allowance: PartitionAllowance | None = None,
    ) -> Topic: ...
    def plan_partitions(
        self,
        name: str,
        count: int,
        assignments: Sequence[Sequence[int]] | None = None,
        allowance: PartitionAllowance | None = None,
    ) -> Topic: ...
    def plan_configs(self, name: str, change: ConfigChange, /) -> Topic: ...
    async def create(
        self,
        name: str,
        partitions: int = -1,
        replication_factor: int = -1,
        assignment: Assignment | None = None,
        overrides: Mapping[str, str] | None = None,
        allowance: PartitionAllowance | None = None,
    ) -> Topic: ...
    async def add_partitions(
        self,
        name: str,
        count: int,
        assignments: Sequence[Sequence[int]] | None = None,
        allowance: PartitionAllowance | None = None,
    ) -> Topic: ...
    async def alter_configs(self, name: str, change: ConfigChange, /) -> Topic: ...
    async def delete(self, wanted: str | UUID, /) -> Topic: ...


class TopicAutoCreation(Protocol):
    """Lookup of a topic that is created in the background if it does not exist."""

    def find(self, name: str, allowance: PartitionAllowance | None, /) -> Topic: ...


class LedPartitions(Protocol):
    """The partitions that this broker leads."""

    @property
    def led(self) -> Mapping[tuple[str, int], Partition]: ...
    def find(self, topic: str | UUID, index: int, /) -> Partition: ...
    def sync(self, log: Log, /) -> Deferred[None]: ...
    def request_failed(self, failed: Log, why: StorageFailure, /) -> None: ...
    def log_rejected_records(self, partition: Partition, why: InvalidRecords, /) -> None: ...


class DelayedRequest(Protocol):
    """A request that waits for something to happen."""

    def expire(self) -> None:
        """Answer with what there is."""


class Fetches(Protocol):
    """State that fetch requests share."""

    @property
    def sessions(self) -> FetchSessions: ...
    @property
    def conversion_cache(self) -> ConversionCache: ...
    @property
    def delayed(self) -> set[DelayedRequest]: ...
    @property
    def bytes_max(self) -> int: ...


class CoordinatorService(Protocol):
    """The service around a coordinator, which keeps its records in an internal topic."""

    async def ensure_topic(self) -> None:
        """Create the internal topic if it does not exist; KafkaError if it cannot be created."""


class TransactionMarkers(CoordinatorService, Protocol):
    """The service around the transaction coordinator, which also writes transaction markers."""

    def write_markers(self, marker: TransactionMarker, done: MarkersCallback, /) -> None: ...


class ProducerIdSource(Protocol):
    """Producer ids, unique in the cluster."""

    async def take(self) -> int: ...


class BrokerSettings(Protocol):
    """Settings of brokers that change while they run."""

    def plan(self, layer: ConfigSource, change: ConfigChange, /) -> dict[str, str]: ...
    async def alter(self, layer: ConfigSource, change: ConfigChange, /) -> None: ...


class LogServices(Protocol):
    """What coordinators need to keep records in partitions."""

    @property
    def config(self) -> BrokerConfig: ...
    @property
    def runtime(self) -> Runtime: ...
    @property
    def catalog(self) -> Topics: ...
    @property
    def partitions(self) -> LedPartitions: ...


class Services(LogServices, Protocol):
    """All that handlers may use."""

    @property
    def apis(self) -> Sequence[Api]: ...
    @property
    def node(self) -> LocalNode: ...
    @property
    def auto_creation(self) -> TopicAutoCreation: ...
    @property
    def dynamic_settings(self) -> BrokerSettings: ...
    @property
    def logs(self) -> LogManager: ...
    @property
    def fetches(self) -> Fetches: ...
    @property
    def groups(self) -> GroupCoordinator: ...
    @property
    def transactions(self) -> TransactionCoordinator: ...
    @property
    def group_service(self) -> CoordinatorService: ...
    @property
    def transaction_service(self) -> TransactionMarkers: ...
    @property
    def producer_ids(self) -> ProducerIdSource: ...
