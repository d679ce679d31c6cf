"""The broker's settings for clusters: ZooKeeper, replication, the controller."""

from __future__ import annotations

from pylogbroker.config.setting import Setting, cluster_wide, fixed
from pylogbroker.config.value_kinds import BOOLEAN, LONG, LONG_MAX, PASSWORD, TEXT, at_least, one_of

RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
_LEADER_SELECTOR = "org.apache.kafka.common.replica.LeaderSelector"

CLUSTER_SETTINGS: tuple[Setting, ...] = (
    fixed(
        "zookeeper.connect",
        TEXT,
        None,
        "high",
        "Servers of the ZooKeeper through which brokers form a cluster, as host:port,host:port/path; the path is "
        "optional. Without it, the broker is the only one of its cluster, and coordination is embedded.",
    ),
    fixed(
        "zookeeper.session.timeout.ms",
        at_least(1),
        18_000,
        "high",
        "Time without contact after which ZooKeeper considers the broker dead.",
    ),
    fixed(
        "zookeeper.connection.timeout.ms",
        at_least(1),
        None,
        "high",
        "Maximum wait for a connection to ZooKeeper at the start. By default the session timeout.",
    ),
    fixed(
        "zookeeper.set.acl",
        BOOLEAN,
        False,
        "high",
        "Whether only this cluster's brokers may change what they create in ZooKeeper. They must authenticate there.",
    ),
    fixed("zookeeper.ssl.client.enable", BOOLEAN, False, "medium", "Whether ZooKeeper is connected to by TLS."),
    fixed("zookeeper.ssl.protocol", TEXT, "TLSv1.2", "low", "Version of TLS for ZooKeeper."),
    fixed(
        "zookeeper.ssl.endpoint.identification.algorithm",
        TEXT,
        "HTTPS",
        "low",
        "HTTPS checks that a certificate of ZooKeeper names its host; an empty text does not.",
    ),
    fixed(
        "zookeeper.ssl.truststore.location",
        TEXT,
        None,
        "medium",
        "File with the certificates of authorities, as PEM, that sign ZooKeeper's certificates.",
    ),
    fixed("zookeeper.ssl.truststore.type", TEXT, None, "medium", "Format of that file; only PEM is supported."),
    fixed(
        "zookeeper.ssl.keystore.location",
        TEXT,
        None,
        "medium",
        "File with this broker's certificate and key, as PEM, for ZooKeeper.",
    ),
    fixed("zookeeper.ssl.keystore.password", PASSWORD, None, "medium", "Password of that key."),
    fixed("zookeeper.ssl.keystore.type", TEXT, None, "medium", "Format of that file; only PEM is supported."),
    fixed(
        "inter.broker.listener.name",
        TEXT,
        None,
        "medium",
        "Listener on which brokers connect to each other. By default the first one for Kafka's protocol. It excludes "
        "security.inter.broker.protocol.",
    ),
    fixed(
        "replica.lag.time.max.ms",
        at_least(1, LONG),
        30_000,
        "high",
        "Time after which a follower that has not caught up with its leader leaves the in-sync replicas.",
    ),
    fixed(
        "replica.fetch.max.bytes",
        at_least(0),
        1_048_576,
        "medium",
        "Bytes of records that a follower fetches of one partition; a larger first batch is sent whole.",
    ),
    fixed("replica.fetch.min.bytes", at_least(1), 1, "high", "Bytes of records for which a follower's fetch waits."),
    fixed(
        "replica.fetch.response.max.bytes",
        at_least(0),
        10_485_760,
        "medium",
        "Bytes of records in one response to a follower.",
    ),
    fixed(
        "replica.fetch.wait.max.ms",
        at_least(0),
        500,
        "high",
        "Maximum wait of a follower's fetch. Keep it well below replica.lag.time.max.ms.",
    ),
    fixed(
        "replica.fetch.backoff.ms",
        at_least(0),
        1_000,
        "medium",
        "Pause before a follower fetches a partition again after an error.",
    ),
    cluster_wide(
        "leader.replication.throttled.rate",
        at_least(0, LONG),
        LONG_MAX,
        "medium",
        "Bytes per second that this broker's leaders send to throttled followers that are not in sync, together.",
    ),
    cluster_wide(
        "follower.replication.throttled.rate",
        at_least(0, LONG),
        LONG_MAX,
        "medium",
        "Bytes per second that this broker's throttled followers fetch together, until they have caught up.",
    ),
    cluster_wide(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        at_least(0, LONG),
        LONG_MAX,
        "medium",
        "Bytes per second that are copied between the log directories of a broker.",
    ),
    fixed(
        "replica.selector.class",
        one_of(RACK_AWARE_SELECTOR, _LEADER_SELECTOR),
        None,
        "medium",
        "Choice of the replica from which a consumer reads: a follower in its rack (client.rack, broker.rack), or the "
        "leader, which is the default.",
    ),
    fixed(
        "replica.socket.timeout.ms",
        at_least(1),
        30_000,
        "high",
        "Timeout of requests to other brokers, but for those of the controller and to it.",
    ),
    fixed(
        "controller.socket.timeout.ms",
        at_least(1),
        30_000,
        "medium",
        "Timeout of requests from the controller to brokers, and from brokers to the controller.",
    ),
    fixed("num.replica.fetchers", at_least(1), 1, "high", "Connections on which a broker fetches from a leader."),
    fixed(
        "controlled.shutdown.enable",
        BOOLEAN,
        True,
        "medium",
        "Whether a broker that stops first asks the controller to move its leaderships.",
    ),
    fixed(
        "controlled.shutdown.max.retries",
        at_least(0),
        3,
        "medium",
        "Number of times that a controlled shutdown is tried again.",
    ),
    fixed(
        "controlled.shutdown.retry.backoff.ms",
        at_least(0, LONG),
        5_000,
        "medium",
        "Pause before a controlled shutdown is tried again.",
    ),
    fixed(
        "auto.leader.rebalance.enable",
        BOOLEAN,
        True,
        "high",
        "Whether the controller periodically moves leaderships to the preferred replicas.",
    ),
    fixed(
        "leader.imbalance.check.interval.seconds",
        at_least(1, LONG),
        300,
        "high",
        "Interval of these moves.",
    ),
    fixed(
        "leader.imbalance.per.broker.percentage",
        at_least(0),
        10,
        "high",
        "Share of a broker's preferred leaderships, in percent, that may be elsewhere before they are moved.",
    ),
)
