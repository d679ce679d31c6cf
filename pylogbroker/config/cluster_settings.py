"""The broker's settings for clusters: ZooKeeper, replication, the controller."""

from __future__ import annotations

from pylogbroker.config.setting import cluster_wide, fixed, rows_of
from pylogbroker.config.value_kinds import BOOLEAN, LIST, LONG, LONG_MAX, PASSWORD, TEXT, at_least, one_of
from pylogbroker.config.values import Values

RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
_LEADER_SELECTOR = "org.apache.kafka.common.replica.LeaderSelector"


class ClusterRows(Values):
    __slots__ = ()

    zookeeper_connect = fixed(
        "zookeeper.connect",
        TEXT,
        None,
        "high",
        "Servers of the ZooKeeper through which brokers form a cluster, as host:port,host:port/path; the path is "
        "optional. Without it, the broker is the only one of its cluster, and coordination is embedded.",
    )
    zookeeper_session_timeout_ms = fixed(
        "zookeeper.session.timeout.ms",
        at_least(1),
        18_000,
        "high",
        "Time without contact after which ZooKeeper considers the broker dead.",
    )
    zookeeper_connection_timeout_ms = fixed(
        "zookeeper.connection.timeout.ms",
        at_least(1),
        None,
        "high",
        "Maximum wait for a connection to ZooKeeper at the start. By default the session timeout.",
    )
    zookeeper_set_acl = fixed(
        "zookeeper.set.acl",
        BOOLEAN,
        False,
        "high",
        "Whether only this cluster's brokers may change what they create in ZooKeeper. They must authenticate there.",
    )
    zookeeper_ssl_client_enable = fixed(
        "zookeeper.ssl.client.enable", BOOLEAN, False, "medium", "Whether ZooKeeper is connected to by TLS."
    )
    zookeeper_ssl_protocol = fixed("zookeeper.ssl.protocol", TEXT, "TLSv1.2", "low", "Version of TLS for ZooKeeper.")
    zookeeper_ssl_endpoint_identification_algorithm = fixed(
        "zookeeper.ssl.endpoint.identification.algorithm",
        TEXT,
        "HTTPS",
        "low",
        "HTTPS checks that a certificate of ZooKeeper names its host; an empty text does not.",
    )
    zookeeper_ssl_truststore_location = fixed(
        "zookeeper.ssl.truststore.location",
        TEXT,
        None,
        "medium",
        "File with the certificates of authorities, as PEM, that sign ZooKeeper's certificates.",
    )
    zookeeper_ssl_truststore_type = fixed(
        "zookeeper.ssl.truststore.type", TEXT, None, "medium", "Format of that file; only PEM is supported."
    )
    zookeeper_ssl_keystore_location = fixed(
        "zookeeper.ssl.keystore.location",
        TEXT,
        None,
        "medium",
        "File with this broker's certificate and key, as PEM, for ZooKeeper.",
    )
    zookeeper_ssl_keystore_password = fixed(
        "zookeeper.ssl.keystore.password", PASSWORD, None, "medium", "Password of that key."
    )
    zookeeper_ssl_keystore_type = fixed(
        "zookeeper.ssl.keystore.type", TEXT, None, "medium", "Format of that file; only PEM is supported."
    )
    process_roles = fixed(
        "process.roles",
        LIST,
        (),
        "high",
        "broker makes this broker a member of a cluster of Apache Kafka's KRaft controllers. With broker,controller "
        "it is the only one of its cluster, since the controllers are Apache Kafka's.",
    )
    controller_quorum_bootstrap_servers = fixed(
        "controller.quorum.bootstrap.servers",
        LIST,
        (),
        "high",
        "Controllers of which one is asked first, as host:port,host:port.",
    )
    controller_quorum_voters = fixed(
        "controller.quorum.voters",
        LIST,
        (),
        "high",
        "All controllers of a quorum whose members do not change, as id@host:port,id@host:port.",
    )
    controller_listener_names = fixed(
        "controller.listener.names",
        TEXT,
        None,
        "high",
        "Listeners of the controllers. The first one's protocol, in listener.security.protocol.map, is that of the "
        "connections to them.",
    )
    broker_heartbeat_interval_ms = fixed(
        "broker.heartbeat.interval.ms",
        at_least(1),
        2_000,
        "medium",
        "Time between this broker's heartbeats to the active controller.",
    )
    initial_broker_registration_timeout_ms = fixed(
        "initial.broker.registration.timeout.ms",
        at_least(1),
        60_000,
        "medium",
        "Maximum wait for the controllers at the start.",
    )
    inter_broker_listener_name = fixed(
        "inter.broker.listener.name",
        TEXT,
        None,
        "medium",
        "Listener on which brokers connect to each other. By default the first one for Kafka's protocol. It excludes "
        "security.inter.broker.protocol.",
    )
    replica_lag_time_max_ms = fixed(
        "replica.lag.time.max.ms",
        at_least(1, LONG),
        30_000,
        "high",
        "Time after which a follower that has not caught up with its leader leaves the in-sync replicas.",
    )
    replica_fetch_max_bytes = fixed(
        "replica.fetch.max.bytes",
        at_least(0),
        1_048_576,
        "medium",
        "Bytes of records that a follower fetches of one partition; a larger first batch is sent whole.",
    )
    replica_fetch_min_bytes = fixed(
        "replica.fetch.min.bytes", at_least(1), 1, "high", "Bytes of records for which a follower's fetch waits."
    )
    replica_fetch_response_max_bytes = fixed(
        "replica.fetch.response.max.bytes",
        at_least(0),
        10_485_760,
        "medium",
        "Bytes of records in one response to a follower.",
    )
    replica_fetch_wait_max_ms = fixed(
        "replica.fetch.wait.max.ms",
        at_least(0),
        500,
        "high",
        "Maximum wait of a follower's fetch. Keep it well below replica.lag.time.max.ms.",
    )
    replica_fetch_backoff_ms = fixed(
        "replica.fetch.backoff.ms",
        at_least(0),
        1_000,
        "medium",
        "Pause before a follower fetches a partition again after an error. If the leader has not heard yet that it "
        "leads, the first pauses are shorter, from 10 ms on.",
    )
    leader_replication_throttled_rate = cluster_wide(
        "leader.replication.throttled.rate",
        at_least(0, LONG),
        LONG_MAX,
        "medium",
        "Bytes per second that this broker's leaders send to throttled followers that are not in sync, together.",
    )
    follower_replication_throttled_rate = cluster_wide(
        "follower.replication.throttled.rate",
        at_least(0, LONG),
        LONG_MAX,
        "medium",
        "Bytes per second that this broker's throttled followers fetch together, until they have caught up.",
    )
    replica_alter_log_dirs_io_max_bytes_per_second = cluster_wide(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        at_least(0, LONG),
        LONG_MAX,
        "medium",
        "Bytes per second that are copied between the log directories of a broker.",
    )
    replica_selector_class = fixed(
        "replica.selector.class",
        one_of(RACK_AWARE_SELECTOR, _LEADER_SELECTOR),
        None,
        "medium",
        "Choice of the replica from which a consumer reads: a follower in its rack (client.rack, broker.rack), or the "
        "leader, which is the default.",
    )
    replica_socket_timeout_ms = fixed(
        "replica.socket.timeout.ms",
        at_least(1),
        30_000,
        "high",
        "Timeout of requests to other brokers, but for those of the controller and to it.",
    )
    controller_socket_timeout_ms = fixed(
        "controller.socket.timeout.ms",
        at_least(1),
        30_000,
        "medium",
        "Timeout of requests from the controller to brokers, and from brokers to the controller.",
    )
    num_replica_fetchers = fixed(
        "num.replica.fetchers", at_least(1), 1, "high", "Connections on which a broker fetches from a leader."
    )
    controlled_shutdown_enable = fixed(
        "controlled.shutdown.enable",
        BOOLEAN,
        True,
        "medium",
        "Whether a broker that stops first asks the controller to move its leaderships.",
    )
    controlled_shutdown_max_retries = fixed(
        "controlled.shutdown.max.retries",
        at_least(0),
        3,
        "medium",
        "Number of times that a controlled shutdown is tried again.",
    )
    controlled_shutdown_retry_backoff_ms = fixed(
        "controlled.shutdown.retry.backoff.ms",
        at_least(0, LONG),
        5_000,
        "medium",
        "Pause before a controlled shutdown is tried again.",
    )
    auto_leader_rebalance_enable = fixed(
        "auto.leader.rebalance.enable",
        BOOLEAN,
        True,
        "high",
        "Whether the controller periodically moves leaderships to the preferred replicas.",
    )
    leader_imbalance_check_interval_seconds = fixed(
        "leader.imbalance.check.interval.seconds",
        at_least(1, LONG),
        300,
        "high",
        "Interval of these moves.",
    )
    leader_imbalance_per_broker_percentage = fixed(
        "leader.imbalance.per.broker.percentage",
        at_least(0),
        10,
        "high",
        "Share of a broker's preferred leaderships, in percent, that may be elsewhere before they are moved.",
    )


CLUSTER_SETTINGS = rows_of(ClusterRows)
