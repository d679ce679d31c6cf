"""A broker's part in a cluster of Apache Kafka's KRaft controllers.

| method          | what happens                                                                               |
|-----------------|--------------------------------------------------------------------------------------------|
| `open`          | the metadata log is read up to its end: the image, and nodes of the tree                    |
| `open_replicas` | the log is followed from now on                                                            |
| `register`      | the controllers register the broker; replicas take their roles once it has read that, and  |
|                 | the controllers unfence it                                                                 |
| `leave`         | the controllers move leaderships away; then as `close`                                      |
| `close`         | registration, reading and fetching end                                                      |

`ended` fires when a record cannot be applied, or the controllers reject the broker for good: then the service stops it.
"""

from __future__ import annotations

import os
import random
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final
from uuid import UUID

import attrs
from twisted.logger import Logger

from pylogbroker.background import run_in_background
from pylogbroker.broker.kraft.addresses import QuorumAddresses
from pylogbroker.broker.kraft.admin import KraftAdmin
from pylogbroker.broker.kraft.directories import DirectoryReports
from pylogbroker.broker.kraft.forwarding import Forwarding
from pylogbroker.broker.kraft.lifecycle import BrokerLifecycle
from pylogbroker.broker.kraft.metadata_copy import MetadataCopy, SnapshotBounds
from pylogbroker.broker.kraft.published_offset import PublishedOffset
from pylogbroker.broker.kraft.publisher import MetadataPublisher
from pylogbroker.broker.kraft.quorum import Quorum
from pylogbroker.broker.kraft.reader import MetadataReader, ReadingEnded
from pylogbroker.broker.kraft.status import KraftStatus
from pylogbroker.broker.metadata.cluster_metadata import MetadataFollower
from pylogbroker.broker.metadata.plans import MetadataPlans
from pylogbroker.broker.metadata.stored_settings import StoredSettings
from pylogbroker.broker.partitions.service import Partitions
from pylogbroker.broker.replication.isr_updates import IsrUpdates
from pylogbroker.broker.replication.member_role import MemberRole
from pylogbroker.broker.requests.api import Api
from pylogbroker.broker.security.logins import credentials_at_controllers, names_at_controllers
from pylogbroker.config import BrokerConfig
from pylogbroker.errors import ConfigError, StartupError
from pylogbroker.features import on_first_use
from pylogbroker.interfaces import ITree
from pylogbroker.kraft.fold import PROTOCOLS
from pylogbroker.kraft.metadata_log import MetadataLog
from pylogbroker.kraft.registration import KraftRegistration, RegisteredIdentity
from pylogbroker.metadata.feature_levels import KRAFT_LEVELS, METADATA_VERSION
from pylogbroker.metadata.image import TopicImage
from pylogbroker.metadata.zk_schema import BrokerNode, parse_endpoint, parse_id
from pylogbroker.rpc.broker_channel import BrokerChannel
from pylogbroker.rpc.errors import Closed
from pylogbroker.rpc.security import OPEN, ConnectionSecurity
from pylogbroker.rpc.settings import Address, ConnectionSettings
from pylogbroker.storage import LogManager
from pylogbroker.storage.metadata.directory import MetadataDirectory
from pylogbroker.wire.metadata_records import BrokerEndpoint, FeatureRange

if TYPE_CHECKING:
    from pylogbroker.security.tls import contexts as tls_contexts
    from pylogbroker.security.tls import settings as tls_settings
    from pylogbroker.security.tls.contexts import ClientTls
else:
    tls_contexts = on_first_use("pylogbroker.security.tls.contexts")
    tls_settings = on_first_use("pylogbroker.security.tls.settings")

log = Logger()
_PROTOCOL_NUMBERS: Final = {name: number for number, name in PROTOCOLS.items()}
_FEATURES: Final = tuple(FeatureRange(name, *attrs.astuple(levels)) for name, levels in KRAFT_LEVELS.items())
"""Features that a member supports; the cluster may have none at another level."""
_SHUTDOWN_SECONDS: Final = 30.0


@attrs.frozen
class NoController:
    """This broker is never the controller."""

    is_active: bool = False
    is_elected: bool = False


@attrs.frozen
class NoStrayReplicas:
    """Replicas that the image does not give this broker are quarantined when it registers."""

    without_topic: int = 0


@attrs.define(eq=False, repr=False)
class KraftRole(MemberRole):
    _tree: ITree
    _cluster_id: str
    _logs: LogManager
    controller: KraftAdmin = attrs.field(init=False)
    driver: NoController = attrs.field(factory=NoController, init=False)
    stray_replicas: NoStrayReplicas = attrs.field(factory=NoStrayReplicas, init=False)
    unclean_elections: int = attrs.field(default=0, init=False)
    interrupted_deletions: Sequence[TopicImage] = attrs.field(default=(), init=False)
    kraft: KraftStatus = attrs.field(init=False)
    forwarding: Forwarding = attrs.field(init=False)
    _quorum: Quorum = attrs.field(init=False)
    _published: PublishedOffset = attrs.field(init=False)
    _publisher: MetadataPublisher = attrs.field(init=False)
    _reader: MetadataReader = attrs.field(init=False)
    _directories: DirectoryReports = attrs.field(init=False)
    _controller_security: ConnectionSecurity = attrs.field(default=OPEN, init=False)
    _end_reason: str = attrs.field(default="", init=False)
    _lifecycles: list[BrokerLifecycle] = attrs.field(factory=list, init=False)
    """One, once the broker registers."""

    def __attrs_post_init__(self) -> None:
        MemberRole.__attrs_post_init__(self)
        config, runtime = self._config, self._runtime
        self._quorum = Quorum(QuorumAddresses.of(config), self._open_controller_channel)
        self._published = PublishedOffset(runtime)
        plans = MetadataPlans(config, self._metadata, runtime.may_log, random.randrange)
        self._publisher = MetadataPublisher(
            self._broker_id, self._metadata, self._tree, runtime, plans, StoredSettings(config), self._published
        )
        home = os.path.abspath(config.metadata_dir)
        copy = MetadataCopy(
            MetadataDirectory(home, self._cluster_id, config.metadata_log_segment_bytes),
            runtime,
            SnapshotBounds(
                config.metadata_log_max_record_bytes_between_snapshots, config.metadata_log_max_snapshot_interval_ms
            ),
        )
        metadata_log = MetadataLog(self._broker_id, self._cluster_id, self._observer_id(home), copy)
        self.kraft = KraftStatus(
            metadata_log,
            self._published,
            lambda: self._lifecycles[0] if self._lifecycles else None,
            lambda: self._publisher.entities.levels,
            lambda: self._publisher.fold.brokers,
            self._quorum,
            runtime,
        )
        self._reader = MetadataReader(metadata_log, copy, self._quorum, runtime, self._publisher.publish)
        self.controller = KraftAdmin(
            self._broker_id,
            config,
            self._metadata,
            plans,
            runtime,
            self._quorum,
            self._broker_epoch,
            self._published,
        )
        self.isr_updates = IsrUpdates(
            self._broker_id, self._broker_epoch, self._quorum, config.inter_broker_protocol, runtime
        )
        self.forwarding = Forwarding(self._quorum, runtime)
        self._directories = DirectoryReports(
            self._broker_id,
            self._broker_epoch,
            self._quorum,
            runtime,
            lambda: self._publisher.fold,
            self._held_directories,
            len(config.log_dirs) > 1,
        )

    def _observer_id(self, home: str) -> UUID:
        """Return the directory by which controllers know this observer: that of the copy, or the first log directory.

        It is the same in each life: the controllers list observers of another directory for minutes.
        """
        ids = {directory.path: directory.id for directory in self._logs.directories if directory.id is not None}
        chosen = ids.get(home) or next(iter(ids.values()), None)
        return uuid.uuid4() if chosen is None else parse_id(chosen)

    def metadata_offset(self) -> int:
        """Return the offset of the last metadata record whose changes are published."""
        return self._published.offset

    def _broker_epoch(self) -> int:
        return self._lifecycles[0].epoch if self._lifecycles else -1

    def _open_controller_channel(self, address: Address) -> BrokerChannel:
        settings = ConnectionSettings(
            client_id=f"broker-{self._broker_id}",
            request_timeout=self._config.controller_socket_timeout_ms / 1000,
            security=self._controller_security,
        )
        return BrokerChannel(self._runtime.reactor, address, settings)

    def served(self, apis: Iterable[Api]) -> tuple[Api, ...]:
        """Return the APIs as a member of such a cluster serves them: the controllers send no orders."""
        own = (self.forwarding.forwarded(api) for api in apis if not api.cluster_only)
        return (*own, *self.forwarding.only_forwarded())

    def host(self, partitions: Partitions) -> None:
        """Make the replicas of this broker, which are logs of `partitions`."""
        self.replicas = self._replicas_of(partitions)
        partitions.on_offline.append(self.replicas.on_partition_offline)
        partitions.on_offline.append(self._directory_failed)

    @property
    def followers(self) -> Sequence[MetadataFollower]:
        """Services that follow the image, besides those of each broker."""
        return (self._directories,)

    async def open(self) -> None:
        """Read the metadata log up to its end; raise StartupError if that cannot be, ConfigError for wrong stores."""
        make_engine = None
        if self._config.controller_listener.security.has_tls:
            make_engine = (await self._runtime.in_thread(_controller_tls, self._config)).engine
        self._controller_security = ConnectionSecurity(
            make_engine, credentials_at_controllers(self._config), names_at_controllers(self._config)
        )
        try:
            await self._reader.catch_up(lambda: METADATA_VERSION in self._publisher.entities.levels)
        except ReadingEnded as error:
            raise StartupError(str(error)) from error
        except Closed:
            raise StartupError("it was stopped before the controllers had answered") from None

    async def open_replicas(self) -> None:
        """Let followers be checked; replicas take their roles when the broker has registered."""
        self.replicas.start()

    async def reopen_offline_partitions(self) -> None:
        """Do nothing: the controllers say what to lead and to follow, also after failures."""

    async def finish_deletions(self) -> None:
        """Follow the metadata log from now on."""
        run_in_background(log, self._follow(), "the metadata of the cluster is not followed any more")

    async def _follow(self) -> None:
        try:
            await self._reader.follow()
        except ReadingEnded as error:
            self._end(str(error))
        except Exception as error:
            log.failure("the metadata of the cluster cannot be followed any more")
            self._end(f"the metadata of the cluster cannot be followed: {error!r}")

    def _end(self, reason: str) -> None:
        """Let the service stop this broker; a start that goes on fails."""
        if self.ended.called:
            return
        self._published.load_errors += 1
        self._end_reason = reason
        for lifecycle in self._lifecycles:
            lifecycle.fail(reason)
        self.ended.callback(reason)

    async def register(self, node: BrokerNode) -> None:
        """Register, and return when the broker is unfenced; raise StartupError."""
        if self._end_reason:
            raise StartupError(self._end_reason)
        config = self._config
        self._check_features()
        directories = [directory for directory in self._logs.directories.online if directory.id is not None]
        endpoints = [
            BrokerEndpoint(name, host, port, _PROTOCOL_NUMBERS.get(node.protocols.get(name, name), 0))
            for name, host, port in map(parse_endpoint, node.endpoints)
        ]
        identity = RegisteredIdentity(
            self._broker_id,
            self._cluster_id,
            uuid.uuid4(),
            endpoints,
            _FEATURES,
            node.rack,
            [parse_id(str(directory.id)) for directory in directories],
        )
        previous = [directory.last_broker_epoch for directory in directories]
        is_clean = self._logs.were_closed_cleanly and len(set(previous)) == 1
        lifecycle = BrokerLifecycle(
            KraftRegistration(identity, previous[0] if is_clean else -1),
            self._quorum,
            self._runtime,
            config.broker_heartbeat_interval_ms / 1000,
            self._published_offset,
        )
        lifecycle.on_registered += [self.replicas.set_broker_epoch, self._registered]
        lifecycle.on_rejected.append(self._end)
        self._lifecycles.append(lifecycle)
        await lifecycle.start(config.initial_broker_registration_timeout_ms / 1000)
        self._directories.check()

    def _check_features(self) -> None:
        """Raise StartupError if the cluster has a feature at a level that this release does not have."""
        supported = {feature.name: feature for feature in _FEATURES}
        for name, level in self._publisher.entities.levels.items():
            levels = supported.get(name, FeatureRange(name, 0, 0))
            first, last = levels.min_supported_version, levels.max_supported_version
            if not first <= level <= last:
                raise StartupError(
                    f"the cluster has the feature {name} at level {level}, this release supports {first} to {last}: "
                    f"lower it with `kafka-features.sh --bootstrap-server ... downgrade --feature {name}={last}`"
                )

    def _published_offset(self) -> int:
        """Return the offset that heartbeats report: none before the replicas have taken their roles."""
        return self._published.offset if self._publisher.has_begun else -1

    def _registered(self, epoch: int) -> None:
        if self._logs.broker_epoch < 0:
            begin = self._publisher.begin(self.replicas, self._logs.logs, epoch)
            run_in_background(log, begin, "the replicas of this broker do not take their roles")
        self._logs.broker_epoch = epoch

    def _held_directories(self) -> Iterator[tuple[UUID, int, UUID]]:
        ids = {directory.path: directory.id for directory in self._logs.directories}
        for (name, number), held in self._logs.logs.items():
            topic, directory = self._metadata.topics.get(name), ids.get(os.path.dirname(held.path))
            if topic is not None and directory is not None:
                yield topic.id, number, parse_id(directory)

    def _directory_failed(self, topic: str, index: int) -> None:
        failed = [directory for directory in self._logs.directories if directory.failure and directory.id is not None]
        for lifecycle in self._lifecycles:
            lifecycle.offline_directories([parse_id(str(directory.id)) for directory in failed])

    async def leave(self) -> None:
        """Leave the cluster in an orderly way, while the listeners are still open."""
        if self._config.controlled_shutdown_enable:
            for lifecycle in self._lifecycles:
                await lifecycle.leave(_SHUTDOWN_SECONDS)
        self.close()

    def close(self) -> None:
        """End registration, reading and fetching; may be called twice."""
        for lifecycle in self._lifecycles:
            lifecycle.close()
        self._directories.close()
        self._reader.stop()
        self.controller.close()
        self._published.close()
        self.forwarding.close()
        self.isr_updates.stop()
        self.replicas.close()
        self.peers.close()
        self._quorum.close()


def _controller_tls(config: BrokerConfig) -> ClientTls:
    """Return the client's side of connections to the controllers; raise ConfigError. Blocks."""
    listener = config.controller_listener
    try:
        return tls_contexts.ClientTls.of(tls_settings.TlsSettings.of(config.of_listener(listener)))
    except ConfigError as error:
        raise ConfigError(f"listener {listener.name}: {error}") from None
