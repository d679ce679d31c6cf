"""Parts of each member of a cluster, with ZooKeeper and with KRaft: channels to other brokers, and replicas."""

from __future__ import annotations

import attrs
from twisted.internet.defer import Deferred

from pylogbroker.broker.coordinators.marker_sender import MARKER_CLIENT_ID, MarkerSender
from pylogbroker.broker.coordinators.verification_sender import VERIFICATION_CLIENT_ID, VerificationSender
from pylogbroker.broker.metadata.cluster_metadata import ClusterMetadata
from pylogbroker.broker.partitions.service import Partitions
from pylogbroker.broker.replication.channels import BrokerChannels
from pylogbroker.broker.replication.isr_updates import IsrUpdates
from pylogbroker.broker.replication.leader_requests import FetcherSettings, RequestChannel
from pylogbroker.broker.replication.peer_requests import PeerRequests
from pylogbroker.broker.replication.replicas import Replicas, ReplicaSettings
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.broker.runtime.throttles import FOLLOWER_RATE, throttle_of
from pylogbroker.broker.security.logins import credentials_of_broker, names_between_brokers
from pylogbroker.broker.security.tls_listeners import TlsListeners
from pylogbroker.broker.share.state_service import PERSISTER_CLIENT_ID
from pylogbroker.config import BrokerConfig, TopicConfig
from pylogbroker.rpc.broker_channel import BrokerChannel
from pylogbroker.rpc.security import ConnectionSecurity


@attrs.define(eq=False, repr=False)
class MemberRole:
    """Base class of the roles in a cluster."""

    _config: BrokerConfig
    _broker_id: int
    _runtime: Runtime
    _metadata: ClusterMetadata
    _tls: TlsListeners
    replicas: Replicas = attrs.field(init=False)
    isr_updates: IsrUpdates = attrs.field(init=False)
    peers: PeerRequests = attrs.field(init=False)
    ended: Deferred[str] = attrs.field(factory=Deferred, init=False)
    """Fires with the reason when this broker cannot go on as a member of its cluster: it has to stop."""
    _channels: BrokerChannels = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        config, metadata = self._config, self._metadata
        self._channels = BrokerChannels(
            self._runtime.reactor,
            lambda: metadata.image,
            config.inter_broker_listener.name,
            config.replica_socket_timeout_ms / 1000,
            self._security,
        )
        self.peers = PeerRequests(self._open_peer_channel, self._runtime)

    @property
    def _security(self) -> ConnectionSecurity:
        """TLS and SASL of connections to other brokers, if their listener has it."""
        has_tls = self._config.inter_broker_listener.security.has_tls
        return ConnectionSecurity(
            self._tls.engine_to if has_tls else None,
            credentials_of_broker(self._config),
            names_between_brokers(self._config),
        )

    def _topic_config(self, topic: str) -> TopicConfig:
        return self._config.topic(self._metadata.topic_settings(topic))

    def _replicas_of(self, partitions: Partitions) -> Replicas:
        """Return the replicas of this broker, which are logs of `partitions`."""
        config = self._config
        settings = ReplicaSettings(
            config.replica_lag_time_max_ms,
            config.replica_fetch_backoff_ms,
            config.num_replica_fetchers,
            lambda: config.follower_fetch_last_tiered_offset_enable,
        )
        fetching = FetcherSettings(
            self._broker_id,
            config.inter_broker_protocol,
            config.replica_fetch_wait_max_ms,
            config.replica_fetch_min_bytes,
            config.replica_fetch_response_max_bytes,
            config.replica_fetch_max_bytes,
            throttle_of(config, FOLLOWER_RATE, self._runtime),
        )
        return Replicas(
            self._broker_id,
            self._runtime,
            partitions,
            settings,
            fetching,
            self._fetch_channel,
            self.isr_updates,
        )

    def marker_sender(self) -> MarkerSender:
        return MarkerSender(self._open_marker_channel, self._runtime)

    def verification_sender(self) -> VerificationSender:
        return VerificationSender(self._open_verification_channel, self._runtime)

    def share_state_peers(self) -> PeerRequests:
        return PeerRequests(self._open_persister_channel, self._runtime)

    def _open_marker_channel(self, broker_id: int) -> RequestChannel:
        """Return a new channel for WriteTxnMarkers; raise NotConnected for a broker that is not alive.

        The version is negotiated with brokers that may have one that no IBP knows.
        """
        client_id = MARKER_CLIENT_ID.format(self._broker_id)
        if self._config.offers_kafka_4:
            return self._channels.open(broker_id, client_id)
        return self._channels.open(broker_id, client_id, dict(self._config.inter_broker_protocol.fixed_versions))

    def _open_peer_channel(self, broker_id: int) -> BrokerChannel:
        """Like `_open_verification_channel`, for requests of any kind."""
        return self._channels.open(broker_id, f"broker-{self._broker_id}-page")

    def _open_persister_channel(self, broker_id: int) -> BrokerChannel:
        """Like `_open_verification_channel`, for the states of share groups."""
        return self._channels.open(broker_id, PERSISTER_CLIENT_ID.format(self._broker_id))

    def _open_verification_channel(self, broker_id: int) -> RequestChannel:
        """Like `_open_marker_channel`, for AddPartitionsToTxn, which no IBP fixes."""
        return self._channels.open(broker_id, VERIFICATION_CLIENT_ID.format(self._broker_id))

    def _fetch_channel(self, leader: int, fetcher: int) -> RequestChannel:
        versions = dict(self._config.inter_broker_protocol.fixed_versions)
        return self._channels.open(leader, f"broker-{self._broker_id}-fetcher-{fetcher}", versions)
