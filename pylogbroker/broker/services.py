"""Services that handlers of requests may use, as protocols; `assembly` has their implementations.

A handler declares those that it uses: `HasPartitions`, or a protocol of several. Mypy lets it use no other, and at run
time it gets no other (`pylogbroker.broker.requests.declared_services`). Modules here and in `apis` import no
implementation, so each can be replaced, without import cycles.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

from twisted.internet.defer import Deferred

if TYPE_CHECKING:
    from pylogbroker.broker.fetch.conversion_cache import ConversionCache
    from pylogbroker.broker.fetch.sessions import FetchSessions
    from pylogbroker.broker.metadata.local_node import LocalNode
    from pylogbroker.broker.partitions.full_directories import FullDirectories
    from pylogbroker.broker.partitions.partition import Partition
    from pylogbroker.broker.partitions.traffic import Traffic
    from pylogbroker.broker.requests.api import Api
    from pylogbroker.broker.requests.client_telemetry import ClientTelemetryService
    from pylogbroker.broker.requests.context import Caller, RequestContext
    from pylogbroker.broker.requests.limits import PartitionAllowance
    from pylogbroker.broker.runtime.resources import Runtime
    from pylogbroker.broker.security.access import Access
    from pylogbroker.broker.security.client_quotas import QuotaUse
    from pylogbroker.broker.security.sasl_listeners import SaslListeners
    from pylogbroker.broker.security.tls_listeners import TlsListeners
    from pylogbroker.broker.share.delivery_settings import DeliverySettings
    from pylogbroker.config import BrokerConfig, TopicConfig
    from pylogbroker.errors import ErrorCode, InvalidRecords, KafkaError, StorageFailure
    from pylogbroker.groups import GroupCoordinator
    from pylogbroker.groups.share.partition import SharePartition
    from pylogbroker.groups.share.requests import ShareOffset
    from pylogbroker.groups.share.sessions import ShareSession, TopicIdPartition
    from pylogbroker.groups.share.state_coordinator import StateWrite
    from pylogbroker.groups.share.state_records import SharePartitionKey
    from pylogbroker.groups.share.stored_state import StoredState
    from pylogbroker.groups.share.values import Acknowledgement
    from pylogbroker.metadata.delta import NewTopic, PartitionsChanged, PlannedTopic
    from pylogbroker.metadata.feature_levels import LevelChange, LevelRange
    from pylogbroker.metadata.image import BrokerRegistration, ClusterImage, ConfigChange, ConfigResource, TopicImage
    from pylogbroker.metadata.persistent_map import PersistentMap
    from pylogbroker.metadata.zk_schema import BadNode, ProducerIdBlock
    from pylogbroker.replication.throttle import ReplicationThrottle
    from pylogbroker.security.acls.bindings import AclBinding, ResourcePattern
    from pylogbroker.security.acls.index import AclIndex, Entries
    from pylogbroker.security.delegation.tokens import DelegationToken, IssuedToken
    from pylogbroker.security.quotas.entities import QuotaEntity, Quotas, QuotaTable
    from pylogbroker.storage import GuardedPolicy, Log, LogManager
    from pylogbroker.transactions import MarkersCallback, TransactionCoordinator, TransactionMarker
    from pylogbroker.wire import Request
    from pylogbroker.wire.messages.describe_quorum import DescribeQuorumResponse
    from pylogbroker.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
    from pylogbroker.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
    from pylogbroker.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse


class Metadata(Protocol):
    @property
    def image(self) -> ClusterImage: ...
    @property
    def topics(self) -> PersistentMap[str, TopicImage]: ...
    def topic_settings(self, name: str, /) -> Mapping[str, str]: ...
    def require_topic(self, topic: str | UUID, /) -> TopicImage: ...
    def follow(self, follower: Any, /) -> None:
        """Let a MetadataFollower act on changes."""


class DefaultTopicPlans(Protocol):
    """Checks of topics with default settings that are not created yet; they raise KafkaError."""

    def plan_topic(self, new: NewTopic, allowance: PartitionAllowance | None = None) -> PlannedTopic: ...


class Controller(Protocol):
    """Changes of the metadata, and plans of these: what a change would do. Both raise the same KafkaError."""

    @property
    def plans(self) -> DefaultTopicPlans: ...

    def check_is_controller(self) -> None:
        """Raise NOT_CONTROLLER if clients must ask another broker for changes of topics."""

    async def plan_topic(self, new: NewTopic, /, allowance: PartitionAllowance | None = None) -> PlannedTopic: ...
    async def plan_partitions(
        self,
        name: str,
        count: int,
        assignments: Sequence[Sequence[int]] | None = None,
        allowance: PartitionAllowance | None = None,
    ) -> PartitionsChanged: ...
    async def plan_config(self, resource: ConfigResource, change: ConfigChange, /) -> dict[str, str]: ...
    async def create_topic(self, new: NewTopic, /, allowance: PartitionAllowance | None = None) -> TopicImage: ...
    async def create_partitions(
        self,
        name: str,
        count: int,
        assignments: Sequence[Sequence[int]] | None = None,
        allowance: PartitionAllowance | None = None,
    ) -> TopicImage: ...
    async def alter_config(self, resource: ConfigResource, change: ConfigChange, /) -> None: ...
    async def delete_topic(self, topic: str | UUID, /) -> TopicImage: ...
    async def allocate_producer_ids(self) -> ProducerIdBlock: ...


class ControllerOrdersTaker(Protocol):
    """Carries out requests of the cluster's controller."""

    async def lead_and_follow(self, request: LeaderAndIsrRequest, version: int, /) -> LeaderAndIsrResponse: ...
    async def update_metadata(self, request: UpdateMetadataRequest, /) -> UpdateMetadataResponse: ...
    async def stop_replicas(self, request: StopReplicaRequest, /) -> StopReplicaResponse: ...


class TopicAutoCreation(Protocol):
    def find(self, name: str, allowance: PartitionAllowance | None, /) -> TopicImage: ...


class TopicPolicies(Protocol):
    def delete_policies_for(self, settings: TopicConfig, /) -> tuple[GuardedPolicy, ...]:
        """Return the delete policies that a topic would have with some settings."""


class LedPartitions(Protocol):
    @property
    def hosted(self) -> Mapping[tuple[str, int], Partition]: ...
    @property
    def led(self) -> Mapping[tuple[str, int], Partition]: ...
    def find(self, topic: str | UUID, index: int, may_follow: bool = False, /) -> Partition: ...
    @property
    def settings(self) -> TopicPolicies: ...
    @property
    def traffic(self) -> Traffic: ...
    @property
    def full_directories(self) -> FullDirectories: ...
    def sync(self, log: Log, /) -> Deferred[None]: ...
    def request_failed(self, failed: Log, why: StorageFailure, /) -> None: ...
    def log_rejected_records(self, partition: Partition, why: InvalidRecords, /) -> None: ...


class LogDirectoryMoves(Protocol):
    @property
    def copy(self) -> Log | None:
        """Copy of a log in the directory to which it is being moved."""

    def move(self, key: tuple[str, int], path: str, /) -> None:
        """Let a log be moved to a directory; raise KafkaError."""


class DelayedRequest(Protocol):
    def expire(self) -> None:
        """Answer with the results so far."""


class Fetches(Protocol):
    @property
    def sessions(self) -> FetchSessions: ...
    @property
    def conversion_cache(self) -> ConversionCache: ...
    @property
    def delayed(self) -> dict[DelayedRequest, None]: ...
    @property
    def expired(self) -> Counter[str]:
        """Fetches that waited for their whole time, by "consumer" and "follower"."""

    @property
    def bytes_max(self) -> int: ...
    @property
    def leader_throttle(self) -> ReplicationThrottle: ...
    @property
    def selects_by_rack(self) -> bool:
        """Consumers are sent to a follower in their rack."""


class StoppableFetch(Protocol):
    def stop(self) -> None:
        """Answer with what there is."""


class CoordinatorService(Protocol):
    async def ensure_topic(self) -> None:
        """Create a missing internal topic; raise KafkaError if that fails."""


class TransactionCoordination(CoordinatorService, Protocol):
    def append_markers(self, marker: TransactionMarker, done: MarkersCallback, /) -> None:
        """Append the marker to partitions that this broker leads."""

    def ask_coordinator(
        self, transactional_id: str, producer_id: int, epoch: int, partition: tuple[str, int], /
    ) -> Deferred[ErrorCode] | None:
        """Ask another broker whether a transaction includes a partition; None if this broker has its coordinator."""

    def add_partition(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partition: tuple[str, int],
        /,
    ) -> Deferred[ErrorCode]:
        """Add a partition to the transaction of a producer of transactions v2, by the coordinator on any broker."""


class ShareStates(CoordinatorService, Protocol):
    """The share coordinator of this broker: states of share partitions. Results are errors without such a shard."""

    def partition_for(self, key: SharePartitionKey, /) -> int: ...
    def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int, /) -> Deferred[ErrorCode]: ...
    def read(self, key: SharePartitionKey, leader_epoch: int, /) -> Deferred[StoredState | ErrorCode]: ...
    def write(self, key: SharePartitionKey, write: StateWrite, /) -> Deferred[ErrorCode]: ...
    def delete(self, key: SharePartitionKey, /) -> Deferred[ErrorCode]: ...
    def summary(self, key: SharePartitionKey, /) -> StoredState | ErrorCode: ...


class ProducerIdSource(Protocol):
    async def take(self) -> int: ...


class Authorization(Protocol):
    @property
    def acls(self) -> Acls: ...
    def access(self, principal: str, host: str, /) -> Access:
        """Return what a connection may do."""


class Acls(Protocol):
    @property
    def index(self) -> AclIndex: ...
    async def add(self, resource: ResourcePattern, new: Entries, principal: str, /) -> None:
        """Add entries of a resource for `principal`, who asks; raise KafkaError."""

    async def remove(self, bindings: Iterable[AclBinding], principal: str, /) -> dict[AclBinding, KafkaError | None]:
        """Return the bindings that are removed for `principal`, and those that remain because of an error."""


class ScramUsers(Protocol):
    """Users in the coordination tree; methods raise KafkaError."""

    async def names(self) -> list[str]: ...
    async def read(self, names: Sequence[str], /) -> Sequence[Mapping[str, str] | BadNode]: ...
    async def alter(self, name: str, change: Callable[[Mapping[str, str]], Mapping[str, str]], /) -> None:
        """Change the settings of a user."""


class DelegationTokens(Protocol):
    """Delegation tokens; methods raise KafkaError."""

    async def create(self, owner: str, requester: str, renewers: Sequence[str], lifetime_ms: int, /) -> IssuedToken: ...
    async def renew(self, principal: str, mac: bytes, period_ms: int, /) -> int:
        """Postpone the expiry of a token, and return it."""

    async def expire(self, principal: str, mac: bytes, period_ms: int, /) -> int:
        """Set the expiry of a token, and return it."""

    async def select(self, is_wanted: Callable[[DelegationToken], bool], /) -> list[IssuedToken]: ...


class ClientQuotas(Protocol):
    @property
    def store(self) -> QuotaChanges: ...
    @property
    def meters(self) -> QuotaMeters | None:
        """Meters of the quotas; None while no client has a quota."""

    def used(self) -> Iterator[QuotaUse]:
        """Yield what clients use of each quota now."""

    def mutations(self, context: RequestContext, strict_since: int, /) -> Mutations | None:
        """Return the mutation quota of a request, or None.

        From version `strict_since` on, exceeding it is an error.
        """


class QuotaMeters(Protocol):
    def limit(self, context: RequestContext, /) -> bool:
        """Return whether the requests of a client have a quota."""

    def handle(
        self,
        handle: Callable[[Any, RequestContext, Any], Any],
        services: Any,
        context: RequestContext,
        request: Any,
        size: int,
        mute: Callable[[int], None],
        /,
    ) -> Any:
        """Handle a request of `size` bytes; its answer has the throttle time for which the connection is muted."""

    def fetch_throttle_ms(self, context: RequestContext, size: int, /) -> int:
        """Return for how long a consumer is throttled that would get `size` bytes."""

    def count_fetched(self, context: RequestContext, size: int, /) -> int:
        """Count bytes that a consumer gets in any case; return for how long it is throttled after them."""

    def fetch_bytes_max(self, context: RequestContext, /) -> float:
        """Return the bytes that a consumer may get at once."""


class Mutations(Protocol):
    @property
    def throttle_ms(self) -> int: ...
    def take(self, partitions: int, /) -> None:
        """Count partitions; raise THROTTLING_QUOTA_EXCEEDED if earlier ones have used up the quota."""


class QuotaChanges(Protocol):
    @property
    def table(self) -> QuotaTable: ...
    async def alter(self, entity: QuotaEntity, change: Callable[[Quotas], Quotas], /) -> None:
        """Change an entity's quotas; raise KafkaError."""


class Peers(Protocol):
    async def send(self, broker_id: int, request: Request, version: int | None = None, /) -> Any:
        """Return another broker's response to a request that its sender may make; raise KafkaError without one."""


class HasConfig(Protocol):
    @property
    def config(self) -> BrokerConfig: ...


class HasRuntime(Protocol):
    @property
    def runtime(self) -> Runtime: ...


class HasMetadata(Protocol):
    @property
    def metadata(self) -> Metadata: ...


class HasController(Protocol):
    @property
    def controller(self) -> Controller: ...


class HasPartitions(Protocol):
    @property
    def partitions(self) -> LedPartitions: ...


class HasApis(Protocol):
    @property
    def apis(self) -> Sequence[Api]: ...


class HasAuthorizer(Protocol):
    @property
    def authorizer(self) -> Authorization | None: ...


class HasQuotas(Protocol):
    @property
    def quotas(self) -> ClientQuotas: ...


class Features(Protocol):
    """Levels of the cluster's features."""

    @property
    def is_on(self) -> bool:
        """False in a cluster with brokers of Kafka 3.9."""

    @property
    def supported(self) -> Mapping[str, LevelRange]:
        """Levels that this broker supports."""

    @property
    def levels(self) -> Mapping[str, int]: ...
    @property
    def epoch(self) -> int: ...
    def level(self, feature: str, /) -> int:
        """Return the level in force, 0 if the feature is off."""

    async def change(self, changes: Sequence[LevelChange], /, validate_only: bool = False) -> None:
        """Change levels, all or none; raise KafkaError."""


class HasFeatures(Protocol):
    @property
    def features(self) -> Features: ...


class HasTelemetry(Protocol):
    @property
    def telemetry(self) -> ClientTelemetryService: ...


class HasNode(Protocol):
    @property
    def node(self) -> LocalNode: ...


class HasAutoCreation(Protocol):
    @property
    def auto_creation(self) -> TopicAutoCreation: ...


class HasLogs(Protocol):
    @property
    def logs(self) -> LogManager: ...


class HasLogMoves(Protocol):
    @property
    def log_moves(self) -> LogDirectoryMoves: ...


class HasFetches(Protocol):
    @property
    def fetches(self) -> Fetches: ...


class HasGroups(Protocol):
    @property
    def groups(self) -> GroupCoordinator: ...


class HasTransactions(Protocol):
    @property
    def transactions(self) -> TransactionCoordinator: ...


class HasGroupService(Protocol):
    @property
    def group_service(self) -> CoordinatorService: ...


class HasTransactionService(Protocol):
    @property
    def transaction_service(self) -> TransactionCoordination: ...


class ShareOffsets(Protocol):
    async def describe(
        self, group_id: str, partitions: Mapping[UUID, Collection[int]], /
    ) -> Mapping[tuple[UUID, int], ShareOffset]:
        """Return where a share group starts in partitions, and its lag."""


class HasShareOffsets(Protocol):
    @property
    def share_offsets(self) -> ShareOffsets: ...


class HasShareStates(Protocol):
    @property
    def share_states(self) -> ShareStates: ...


class LedShare(Protocol):
    """Share partition that is led here and loaded."""

    @property
    def records(self) -> SharePartition: ...


class SharePartitions(Protocol):
    def find(self, group_id: str, topic_id: UUID, index: int, /) -> Any:
        """Return a share partition that is led here, or is being loaded; raise KafkaError."""

    def led(self, key: SharePartitionKey, partition: Partition, /) -> LedShare | None:
        """Return a share partition of a partition if it is loaded."""


class ShareGroups(Protocol):
    """Share groups at the leaders of partitions; methods raise KafkaError."""

    @property
    def partitions(self) -> SharePartitions: ...
    def settings_of(self, group_id: str, /) -> DeliverySettings: ...
    def open_session(self, group_id: str, member_id: str, connection: Caller, /) -> ShareSession: ...
    def go_on(self, group_id: str, member_id: str, connection: Caller, epoch: int, /) -> ShareSession: ...
    def update_session(
        self, session: ShareSession, added: Iterable[TopicIdPartition], forgotten: Iterable[TopicIdPartition], /
    ) -> None: ...
    def end_session(self, session: ShareSession, /) -> None:
        """Release what the member has acquired, too."""

    async def acknowledge(
        self,
        session: ShareSession,
        acknowledgements: Mapping[TopicIdPartition, Iterable[Acknowledgement]],
        /,
        *,
        may_renew: bool,
    ) -> dict[TopicIdPartition, KafkaError | None]: ...
    def fetch_begins(self, session: ShareSession, fetch: StoppableFetch, /) -> None: ...
    def fetch_ends(self, session: ShareSession, fetch: StoppableFetch, /) -> None: ...


class HasShareGroups(Protocol):
    @property
    def share_groups(self) -> ShareGroups: ...


class HasProducerIds(Protocol):
    @property
    def producer_ids(self) -> ProducerIdSource: ...


class HasTls(Protocol):
    @property
    def tls(self) -> TlsListeners: ...


class HasSasl(Protocol):
    @property
    def sasl(self) -> SaslListeners | None:
        """SASL of the listeners that have it; None if no listener has."""


class HasScram(Protocol):
    @property
    def scram(self) -> ScramUsers: ...


class HasTokens(Protocol):
    @property
    def tokens(self) -> DelegationTokens | None:
        """Delegation tokens; None without a secret key."""


class HasMembership(Protocol):
    @property
    def membership(self) -> ControllerOrdersTaker:
        """Part that takes the controller's orders; only APIs that are offered in clusters use it."""


class HasPeers(Protocol):
    @property
    def peers(self) -> Peers:
        """The other brokers of a cluster."""


class PublishedMetadata(Protocol):
    """Progress of a broker in the metadata log."""

    @property
    def offset(self) -> int: ...
    @property
    def timestamp_ms(self) -> int: ...
    @property
    def snapshots(self) -> int: ...
    @property
    def apply_errors(self) -> int: ...
    @property
    def load_errors(self) -> int: ...


class KraftMember(Protocol):
    """A broker as a member of a cluster of KRaft controllers."""

    @property
    def state(self) -> str: ...
    @property
    def broker_epoch(self) -> int: ...
    @property
    def published(self) -> PublishedMetadata: ...
    @property
    def leader_id(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...
    @property
    def high_watermark(self) -> int: ...
    @property
    def log_end_offset(self) -> int: ...
    @property
    def levels(self) -> Mapping[str, int]: ...
    def fenced_brokers(self) -> Iterable[BrokerRegistration]: ...
    async def described(self) -> DescribeQuorumResponse:
        """Return the active controller's answer about the quorum; raise KafkaError without one."""


class HasKraft(Protocol):
    @property
    def kraft(self) -> KraftMember | None:
        """Return None in other clusters."""


class LogServices(HasConfig, HasRuntime, HasMetadata, HasController, HasPartitions, Protocol):
    """Services of the coordinators."""


class Services(
    LogServices,
    HasApis,
    HasAuthorizer,
    HasQuotas,
    HasNode,
    HasAutoCreation,
    HasLogs,
    HasLogMoves,
    HasFeatures,
    HasFetches,
    HasGroups,
    HasTransactions,
    HasGroupService,
    HasTransactionService,
    HasShareStates,
    HasShareOffsets,
    HasShareGroups,
    HasProducerIds,
    HasTelemetry,
    HasTls,
    HasSasl,
    HasScram,
    HasTokens,
    HasMembership,
    HasPeers,
    HasKraft,
    Protocol,
):
    """Services of a broker. Handlers name those that they use."""
