"""A broker's part in a cluster of several: everything that it does there beyond serving clients.

| method     | what happens                                                          |
|------------|-----------------------------------------------------------------------|
| `open`     | the image and settings are read from the tree, and settings watched   |
| `register` | the controller sees the broker, and sends it orders                   |
| `leave`    | the controller moves leaderships away; then as `close`                |
| `close`    | registration, elections and fetching end                              |
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

import attrs
from twisted.internet.task import deferLater
from twisted.logger import Logger

from pylogbroker.broker.membership.admin import ClusterAdmin
from pylogbroker.broker.membership.config_watch import ConfigWatch
from pylogbroker.broker.membership.controller_channels import AnswerHandler, ChannelSettings, ControllerChannels
from pylogbroker.broker.membership.controller_driver import ControllerDriver
from pylogbroker.broker.membership.member import ClusterMember
from pylogbroker.broker.membership.orders import ControllerOrders
from pylogbroker.broker.membership.unclean_elections import UncleanElections
from pylogbroker.broker.metadata.cluster_metadata import MetadataFollower
from pylogbroker.broker.metadata.plans import MetadataPlans
from pylogbroker.broker.metadata.stored_settings import StoredSettings
from pylogbroker.broker.partitions.service import Partitions
from pylogbroker.broker.replication.controller_channel import ControllerChannel
from pylogbroker.broker.replication.isr_updates import IsrUpdates
from pylogbroker.broker.replication.log_dir_failures import LogDirFailures
from pylogbroker.broker.replication.member_role import MemberRole
from pylogbroker.broker.replication.stray_replicas import StrayReplicas
from pylogbroker.broker.requests.api import Api
from pylogbroker.controller.ports import ControllerSettings
from pylogbroker.interfaces import ITree
from pylogbroker.metadata import registration, zk_paths
from pylogbroker.metadata.image import PartitionKey, TopicImage
from pylogbroker.metadata.zk_image import read_image
from pylogbroker.metadata.zk_schema import BrokerNode
from pylogbroker.rpc.errors import code_of
from pylogbroker.wire.messages.controlled_shutdown import ControlledShutdownRequest

log = Logger()


@attrs.define(eq=False, repr=False)
class ClusterRole(MemberRole):
    _tree: ITree
    controller: ClusterAdmin = attrs.field(init=False)
    kraft: None = attrs.field(default=None, init=False)
    driver: ControllerDriver = attrs.field(init=False)
    stray_replicas: StrayReplicas = attrs.field(init=False)
    orders: ControllerOrders = attrs.field(init=False)
    interrupted_deletions: Sequence[TopicImage] = attrs.field(default=(), init=False)
    _partitions: Partitions = attrs.field(init=False)
    _plans: MetadataPlans = attrs.field(init=False)
    _controller_channel: ControllerChannel = attrs.field(init=False)
    unclean_elections: int = attrs.field(default=0, init=False)
    """Held by this broker as the controller, since its start."""
    _stored_settings: StoredSettings = attrs.field(init=False)
    _log_dir_failures: LogDirFailures = attrs.field(init=False)
    _config_watch: ConfigWatch = attrs.field(init=False)
    _member: ClusterMember = attrs.field(init=False)
    _suspect: Sequence[PartitionKey] = attrs.field(default=(), init=False)

    def __attrs_post_init__(self) -> None:
        MemberRole.__attrs_post_init__(self)
        config, broker_id, runtime, metadata = self._config, self._broker_id, self._runtime, self._metadata
        seconds = config.zookeeper_session_timeout_ms / 1000
        self._member = ClusterMember(broker_id, self._tree, runtime, seconds)
        self._plans = MetadataPlans(config, metadata, runtime.may_log, random.randrange)
        to_controller = attrs.evolve(self._channels, request_seconds=self._controller_request_seconds)
        self._controller_channel = ControllerChannel(to_controller, lambda: metadata.image, str(broker_id))
        self.isr_updates = IsrUpdates(
            broker_id, lambda: self._member.epoch, self._controller_channel, config.inter_broker_protocol, runtime
        )
        self.driver = ControllerDriver(
            broker_id,
            self._tree,
            runtime.clock,
            runtime.slices,
            self._controller_settings,
            self._open_controller_channels,
            config.leader_imbalance_check_interval_seconds if config.auto_leader_rebalance_enable else None,
        )
        self._stored_settings = StoredSettings(config)
        self._config_watch = ConfigWatch(self._tree, metadata, runtime, self._stored_settings)
        self.controller = ClusterAdmin(
            broker_id,
            self._tree,
            metadata,
            self._plans,
            runtime,
            config.inter_broker_protocol,
            self._controller_channel,
            self.driver,
            self._config_watch,
            lambda: self._member.epoch,
        )
        self._log_dir_failures = LogDirFailures(broker_id, self._tree, runtime)

    def served(self, apis: Iterable[Api]) -> tuple[Api, ...]:
        """Return the APIs, all of them."""
        return tuple(apis)

    def host(self, partitions: Partitions) -> None:
        """Make the replicas of this broker, which are logs of `partitions`."""
        self._partitions = partitions
        self.replicas = self._replicas_of(partitions)
        self.orders = ControllerOrders(
            self._metadata,
            self.replicas,
            self._runtime.slices,
            self._topic_config,
            self._config_watch.read_topics,
            lambda: self._tree.children(zk_paths.TOPICS),
        )
        self.stray_replicas = StrayReplicas(
            self._broker_id, self._runtime, self._tree, partitions, self.replicas, self.orders.run_alone
        )
        self.orders.after_absence.append(self.stray_replicas.check_later)
        partitions.on_offline += [self.replicas.on_partition_offline, self._log_dir_failures.on_partition_offline]
        self._member.on_departed.append(self.orders.departed)
        self._member.on_registered += [self.orders.set_broker_epoch, self.replicas.set_broker_epoch]
        self._member.on_new_session.append(self._config_watch.resume)
        self._member.on_registered.append(lambda epoch: self.driver.start())

    @property
    def followers(self) -> Sequence[MetadataFollower]:
        """Services that follow the image, besides those of each broker."""
        return self.controller.waits, UncleanElections(self._config, self.driver.allow_unclean_elections)

    async def open(self) -> None:
        """Read the image from the tree, without topics under deletion."""
        await self._config_watch.open(self._read_image)

    async def _read_image(self) -> None:
        contents = await read_image(self._tree, self._runtime.slices)
        self.interrupted_deletions = contents.deleted
        self._plans.open(contents.image)
        self._metadata.image = await self._stored_settings.accepted_image(contents.image, self._runtime.slices)

    async def open_replicas(self) -> None:
        """Open none yet: the controller will say what to lead and to follow."""
        self._suspect = await self._suspect_partitions()
        self.orders.is_departing = bool(self._suspect)
        self.replicas.start()

    async def reopen_offline_partitions(self) -> None:
        """Do nothing: the controller orders what to lead and to follow, also after failures."""

    async def finish_deletions(self) -> None:
        """Do nothing: the controller deletes topics."""

    async def register(self, node: BrokerNode) -> None:
        """Register; raise StartupError if brokers could not connect to each other, or the id is another broker's."""
        await registration.check_listener(self._tree, self._broker_id, self._config.inter_broker_listener.name)
        await self._member.register(node, self._suspect)

    async def _suspect_partitions(self) -> list[PartitionKey]:
        """Return this broker's partitions with other replicas if it was not stopped cleanly."""
        if self._partitions.were_closed_cleanly:
            return []
        return [
            (topic.name, number)
            async for topic in self._runtime.slices.over(self._metadata.topics.values())
            for number, state in topic.partitions.items()
            if self._broker_id in state.replicas and len(state.replicas) > 1
        ]

    async def leave(self) -> None:
        """Leave the cluster in an orderly way, while the listeners are still open."""
        if self._config.controlled_shutdown_enable and self._member.is_registered:
            await self._shut_down()
        self.close()

    def close(self) -> None:
        """End registration, elections and fetching; may be called twice."""
        self._member.close()
        self.orders.close()
        self.stray_replicas.stop()
        self.driver.stop()
        self.controller.waits.close()
        self._config_watch.stop()
        self.isr_updates.stop()
        self._log_dir_failures.stop()
        self.replicas.close()
        self._controller_channel.close()
        self.peers.close()

    async def _shut_down(self) -> None:
        config = self._config
        request = ControlledShutdownRequest(self._broker_id, self._member.epoch)
        version = config.inter_broker_protocol.version_of(ControlledShutdownRequest.api_key)
        for attempt in range(config.controlled_shutdown_max_retries + 1):
            if attempt:
                await deferLater(self._runtime.clock, config.controlled_shutdown_retry_backoff_ms / 1000)
            try:
                response = await self._controller_channel.request(lambda _: request, (version,))
            except Exception as error:
                log.warn("the controller could not be asked to move leaderships: {why}", why=error)
                continue
            if response.error_code:
                log.warn("the controller moves no leaderships now: {error}", error=code_of(response.error_code).name)
            elif response.remaining_partitions:
                log.info("{count} partitions are still led here", count=len(response.remaining_partitions))
            else:
                return
        log.warn("the broker stops although it may lead partitions: they have no leader until the controller notices")

    def _controller_settings(self) -> ControllerSettings:
        config = self._config
        return ControllerSettings(
            config.inter_broker_protocol,
            config.delete_topic_enable,
            config.leader_imbalance_per_broker_percentage,
            lambda topic: self._topic_config(topic).unclean_leader_election_enable,
            lambda topic: self._topic_config(topic).byte_addressed,
            self._note_unclean_election,
            lambda topic: self._topic_config(topic).remote_storage_enable,
        )

    def _note_unclean_election(self, partition: PartitionKey, leader: int) -> None:
        self.unclean_elections += 1
        if self._runtime.may_log("unclean elections"):
            log.warn(
                "elected broker {leader} for {topic}-{index}, although it was not in sync: records may be lost",
                leader=leader,
                topic=partition[0],
                index=partition[1],
            )

    @property
    def _controller_request_seconds(self) -> float:
        return self._config.controller_socket_timeout_ms / 1000

    def _open_controller_channels(self, answered: AnswerHandler) -> ControllerChannels:
        config = self._config
        settings = ChannelSettings(
            self._runtime.reactor,
            config.inter_broker_protocol,
            config.inter_broker_listener.name,
            str(self._broker_id),
            self._controller_request_seconds,
            self._security,
        )
        return ControllerChannels.of(settings, answered, self._runtime.may_log)
