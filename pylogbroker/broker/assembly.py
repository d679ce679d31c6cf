"""Assembly of a broker: makes, connects, starts and stops its services."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
from twisted.internet.defer import Deferred, DeferredList

from pylogbroker.assignors.group import BUILT_IN
from pylogbroker.broker.apis import APIS
from pylogbroker.broker.coordinators.group_service import GroupService
from pylogbroker.broker.coordinators.producer_ids import ProducerIds
from pylogbroker.broker.coordinators.transaction_service import TransactionService
from pylogbroker.broker.fetch.service import FetchService
from pylogbroker.broker.jobs.disk_jobs import DiskJobs
from pylogbroker.broker.jobs.log_cleaner import LogCleaner
from pylogbroker.broker.jobs.log_maintenance import LogMaintenance
from pylogbroker.broker.metadata.auto_creation import AutoCreation
from pylogbroker.broker.metadata.cluster_metadata import ClusterMetadata
from pylogbroker.broker.metadata.dynamic_settings import DynamicSettings
from pylogbroker.broker.metadata.feature_store import FeatureStore
from pylogbroker.broker.metadata.local_node import LocalNode
from pylogbroker.broker.partitions.delete_policies import DeletePolicies
from pylogbroker.broker.partitions.log_moves import LogMoves
from pylogbroker.broker.partitions.service import Partitions
from pylogbroker.broker.requests.api import Api
from pylogbroker.broker.requests.client_telemetry import ClientTelemetryService
from pylogbroker.broker.requests.offered_versions import FEATURE_NEEDS
from pylogbroker.broker.runtime.resources import InThread, Runtime
from pylogbroker.broker.runtime.throttles import MOVES_RATE, throttle_of
from pylogbroker.broker.security.client_quotas import BrokerQuotas
from pylogbroker.broker.security.scram_store import ScramStore
from pylogbroker.broker.security.tls_listeners import TlsListeners
from pylogbroker.broker.services import Controller, ControllerOrdersTaker, KraftMember, Peers
from pylogbroker.broker.share.dead_letters import DeadLetters
from pylogbroker.broker.share.group_offsets import ShareGroupOffsets
from pylogbroker.broker.share.service import ShareGroupService
from pylogbroker.broker.share.state_service import ShareStateService
from pylogbroker.broker.sole.controller import LocalController
from pylogbroker.broker.sole.role import SoleRole
from pylogbroker.config import BrokerConfig
from pylogbroker.features import on_first_use
from pylogbroker.groups import GroupCoordinator
from pylogbroker.interfaces import IClientTelemetryReceiver, IGroupAssignor, ITree
from pylogbroker.interfaces.remote_storage import IRemoteStorage
from pylogbroker.metadata.feature_levels import (
    GROUP_VERSION,
    KRAFT_LEVELS,
    STREAMS_VERSION,
    SUPPORTED_LEVELS,
    initial_levels,
)
from pylogbroker.security.principals import ANONYMOUS
from pylogbroker.storage import LogManager
from pylogbroker.transactions import TransactionCoordinator

if TYPE_CHECKING:
    from pylogbroker.broker.kraft.role import KraftRole
    from pylogbroker.broker.membership.cluster_role import ClusterRole
    from pylogbroker.broker.membership.control import ClusterControl
    from pylogbroker.broker.security.authorizer import BrokerAuthorizer
    from pylogbroker.broker.security.delegation.manager import TokenManager
    from pylogbroker.broker.security.sasl_listeners import SaslListeners
    from pylogbroker.broker.sole.control import SoleControl

    Role = SoleRole | ClusterRole | KraftRole
    from pylogbroker.broker.archive import service as archive_service
    from pylogbroker.broker.archive.service import ArchiveService
    from pylogbroker.broker.kraft import role as kraft_role
    from pylogbroker.broker.membership import cluster_role
    from pylogbroker.broker.security import authorizer as broker_authorizer
    from pylogbroker.broker.security import sasl_listeners
    from pylogbroker.broker.security.delegation import manager
    from pylogbroker.broker.sole import control as sole_control
else:
    archive_service = on_first_use("pylogbroker.broker.archive.service")
    broker_authorizer = on_first_use("pylogbroker.broker.security.authorizer")
    cluster_role = on_first_use("pylogbroker.broker.membership.cluster_role")
    manager = on_first_use("pylogbroker.broker.security.delegation.manager")
    kraft_role = on_first_use("pylogbroker.broker.kraft.role")
    sasl_listeners = on_first_use("pylogbroker.broker.security.sasl_listeners")
    sole_control = on_first_use("pylogbroker.broker.sole.control")


_PROTOCOLS = {GROUP_VERSION: "consumer", STREAMS_VERSION: "streams"}
"""Protocols of `group.coordinator.rebalance.protocols`, by the features that their APIs need."""
_OF_TELEMETRY = frozenset({"GetTelemetrySubscriptions", "PushTelemetry"})


@attrs.frozen(eq=False, repr=False)
class _LogServices:
    config: BrokerConfig
    runtime: Runtime
    metadata: ClusterMetadata
    controller: Controller
    partitions: Partitions


@attrs.frozen(eq=False, repr=False)
class RemoteStorage:
    """Store of archived topics, and the threads that may wait for it."""

    storage: IRemoteStorage
    in_reading_thread: InThread
    in_copying_thread: InThread


@attrs.frozen(eq=False, repr=False)
class Broker:
    """Services of one broker, on the reactor thread."""

    config: BrokerConfig
    node: LocalNode
    runtime: Runtime
    logs: LogManager
    apis: tuple[Api, ...]
    metadata: ClusterMetadata
    role: Role
    auto_creation: AutoCreation
    dynamic_settings: DynamicSettings
    producer_ids: ProducerIds
    partitions: Partitions
    fetches: FetchService
    group_service: GroupService
    transaction_service: TransactionService
    share_states: ShareStateService
    share_offsets: ShareGroupOffsets
    share_groups: ShareGroupService
    log_cleaner: LogCleaner
    log_moves: LogMoves
    log_maintenance: LogMaintenance
    tls: TlsListeners
    sasl: SaslListeners | None
    scram: ScramStore
    features: FeatureStore
    telemetry: ClientTelemetryService
    tokens: TokenManager | None
    authorizer: BrokerAuthorizer | None
    quotas: BrokerQuotas
    archive: ArchiveService | None
    """None without a remote storage."""
    coordinators_loaded: Deferred[Any] = attrs.field(factory=Deferred, init=False)
    """Fires when the coordinators have replayed their records."""

    @property
    def controller(self) -> Controller:
        return self.role.controller

    @property
    def membership(self) -> ControllerOrdersTaker:
        """Raise LookupError in a broker that is alone in its cluster."""
        if not isinstance(self.role, cluster_role.ClusterRole):
            raise LookupError("no controller sends orders to the broker")
        return self.role.orders

    @property
    def peers(self) -> Peers:
        """Raise LookupError in a broker that is alone in its cluster."""
        if isinstance(self.role, SoleRole):
            raise LookupError("the broker is alone in its cluster")
        return self.role.peers

    @property
    def cluster_control(self) -> ClusterControl | SoleControl:
        role = self.role
        if isinstance(role, SoleRole):
            return sole_control.SoleControl(self.node.id, self.metadata, self.partitions)
        if not isinstance(role, cluster_role.ClusterRole):
            raise LookupError("the controllers are not brokers")
        return role.driver

    @property
    def kraft(self) -> KraftMember | None:
        return self.role.kraft

    @property
    def groups(self) -> GroupCoordinator:
        return self.group_service.coordinator

    @property
    def transactions(self) -> TransactionCoordinator:
        return self.transaction_service.coordinator

    async def open(self) -> None:
        """Open the services; the controller and the logs are open."""
        if self.authorizer is not None:
            await self.authorizer.open()
            self._check_brokers(self.authorizer)
        await self.quotas.open()
        await self.features.open()
        if self.tokens is not None:
            await self.tokens.open()
        self.dynamic_settings.open(self.metadata.image)
        await self.role.open_replicas()
        self.partitions.open()
        for listener in (
            self.dynamic_settings,
            *self.role.followers,
            self.partitions.settings,
            self.group_service,
            self.transaction_service,
            self.share_states,
            self.share_groups,
        ):
            self.metadata.follow(listener)
        loading = DeferredList([self.group_service.open(), self.transaction_service.open(), self.share_states.open()])
        loading.chainDeferred(self.coordinators_loaded)
        await self.role.finish_deletions()
        self.log_maintenance.start()
        self.log_cleaner.start()
        self.log_moves.start()
        if self.archive is not None:
            self.archive.start()

    def _check_brokers(self, authorizer: BrokerAuthorizer) -> None:
        """Warn if the brokers of this cluster are not allowed to be that. TLS and SASL name them as they connect."""
        if not isinstance(self.role, SoleRole):
            listener = self.config.inter_broker_listener
            if not listener.security.has_setup:
                authorizer.warn_of_brokers(ANONYMOUS, listener.advertised_host or listener.host)

    def release(self) -> None:
        self.tls.stop()
        if self.sasl is not None:
            self.sasl.stop()
        if self.authorizer is not None:
            self.authorizer.close()
        self.quotas.close()
        self.features.close()
        if self.tokens is not None:
            self.tokens.close()
        self.role.close()
        self.auto_creation.stop()
        self.log_maintenance.stop()
        self.log_cleaner.stop()
        self.log_moves.stop()
        if self.archive is not None:
            self.archive.stop()
        self.partitions.full_directories.stop()
        self.runtime.slices.stop()
        self.transaction_service.close()
        self.share_groups.close()
        self.share_states.close()
        self.group_service.close()
        self.fetches.expire_all()
        self.runtime.timeouts.stop()


def assemble(
    config: BrokerConfig,
    broker_id: int,
    cluster_id: str,
    runtime: Runtime,
    tree: ITree,
    logs: LogManager,
    delete_policies: DeletePolicies,
    in_cluster: bool = False,
    group_assignors: Mapping[str, IGroupAssignor] = BUILT_IN,
    telemetry_receivers: Sequence[IClientTelemetryReceiver] = (),
    remote_storage: RemoteStorage | None = None,
) -> Broker:
    config.add_topic_check(delete_policies.check)
    node = LocalNode(broker_id, cluster_id, config.broker_rack)
    metadata = ClusterMetadata()
    tls = TlsListeners(config, runtime)
    role: Role
    supported, metadata_offset = SUPPORTED_LEVELS, None
    if config.in_kraft:
        role = kraft_role.KraftRole(config, node.id, runtime, metadata, tls, tree, cluster_id, logs)
        supported, metadata_offset = KRAFT_LEVELS, role.metadata_offset
    elif in_cluster:
        role = cluster_role.ClusterRole(config, node.id, runtime, metadata, tls, tree)
    else:
        controller = LocalController(tree, config, node.id, metadata, runtime.in_thread, runtime.may_log)
        role = SoleRole(node.id, runtime, metadata, controller)
    partitions = Partitions(config, runtime, logs, metadata, node.id, delete_policies)
    role.host(partitions)
    archive = None
    if remote_storage is not None:
        archive = archive_service.ArchiveService.of(
            config,
            runtime,
            metadata,
            partitions,
            remote_storage.storage,
            remote_storage.in_reading_thread,
            remote_storage.in_copying_thread,
            cluster_id,
            lambda: [directory.path for directory in logs.directories.online],
        )
    producer_ids = ProducerIds(role.controller, runtime.may_log)
    log_services = _LogServices(config, runtime, metadata, role.controller, partitions)
    initial = initial_levels(config.initial_features)
    features = FeatureStore(tree, runtime, config.offers_kafka_4, initial, supported, metadata_offset)
    share_peers = role.share_state_peers()
    share_states = ShareStateService(log_services, node.id, share_peers)
    group_service = GroupService(log_services, share_states.persister, group_assignors)
    transaction_service = TransactionService(
        log_services,
        producer_ids,
        group_service.coordinator,
        node.id,
        features,
        role.marker_sender(),
        role.verification_sender(),
    )
    partitions.before_drop.append(group_service.unload_topic)
    partitions.before_drop += [transaction_service.driver.unload_topic, share_states.unload_topic]
    for driver in (group_service.driver, transaction_service.driver, share_states.driver):
        partitions.on_reopened.append(driver.on_partition_led)
        partitions.on_offline.append(driver.on_partition_offline)
        if not isinstance(role, SoleRole):
            role.replicas.on_led.append(driver.on_led)
            role.replicas.on_resigned.append(driver.on_resigned)
    share_groups = ShareGroupService(
        log_services, features, share_states.persister, DeadLetters(log_services, node.id, share_peers)
    )
    partitions.on_offline.append(share_groups.on_partition_offline)
    if not isinstance(role, SoleRole):
        role.replicas.on_resigned.append(share_groups.on_resigned)
    disk = DiskJobs(runtime, logs, partitions)
    log_cleaner = LogCleaner(config, runtime, partitions, disk)
    authorizer = _authorizer(config, runtime, tree)
    scram = ScramStore(tree, runtime, notifies=in_cluster)
    tokens = _token_manager(config, runtime, tree, in_cluster, role.controller)
    telemetry = ClientTelemetryService(telemetry_receivers, config.telemetry_max_bytes, runtime)
    apis = role.served(APIS)
    if not telemetry.is_on:
        apis = tuple(api for api in apis if api.name not in _OF_TELEMETRY)
    if not config.offers_kafka_4:
        in_3_9 = (api.as_in_3_9() for api in apis)
        apis = tuple(api for api in in_3_9 if api.versions.last >= 0)
    if authorizer is not None:
        apis = tuple(api.guarded() for api in apis)
    return Broker(
        config,
        node,
        runtime,
        logs,
        tuple(_switched(api, config, features) for api in apis),
        metadata,
        role,
        AutoCreation(config, metadata, role.controller, runtime),
        DynamicSettings(config, node.id),
        producer_ids,
        partitions,
        FetchService.of(config, runtime),
        group_service,
        transaction_service,
        share_states,
        ShareGroupOffsets(log_services, node.id, share_states.persister, share_peers),
        share_groups,
        log_cleaner,
        LogMoves(runtime, partitions, logs, throttle_of(config, MOVES_RATE, runtime), log_cleaner.is_busy_with),
        LogMaintenance(config, runtime, logs, partitions, log_cleaner, disk, role.reopen_offline_partitions),
        tls,
        _sasl_listeners(config, runtime, scram, tokens),
        scram,
        features,
        telemetry,
        tokens,
        authorizer,
        BrokerQuotas.of(config, runtime, tree),
        archive,
    )


def _switched(api: Api, config: BrokerConfig, features: FeatureStore) -> Api:
    """Return an API that is on while its feature has the level that it needs, and no setting switches it off."""
    need = FEATURE_NEEDS.get(api.name)
    if need is None:
        return api
    protocol = _PROTOCOLS.get(need.feature)
    if protocol is not None and protocol not in config.group_coordinator_rebalance_protocols:
        return api.switched(lambda: False)
    return api.switched(lambda: features.level(need.feature) >= need.level)


def _authorizer(config: BrokerConfig, runtime: Runtime, tree: ITree) -> BrokerAuthorizer | None:
    if not config.authorizer_class_name:
        return None
    return broker_authorizer.BrokerAuthorizer.of(config, runtime, tree)


def _token_manager(
    config: BrokerConfig, runtime: Runtime, tree: ITree, in_cluster: bool, controller: Controller
) -> TokenManager | None:
    secret = config.delegation_token_secret_key
    if not secret:
        return None
    return manager.TokenManager.of(config, runtime, tree, in_cluster, controller, secret)


def _sasl_listeners(
    config: BrokerConfig, runtime: Runtime, scram: ScramStore, tokens: TokenManager | None
) -> SaslListeners | None:
    if not config.has_sasl:
        return None
    return sasl_listeners.SaslListeners(config, runtime, scram, None if tokens is None else tokens.login)
