"""The broker's settings for its identity, listeners, connections and threads."""

from __future__ import annotations

from pylogbroker.config import listeners
from pylogbroker.config.log_levels import parse_log_levels
from pylogbroker.config.setting import Synonym, cluster_wide, fixed, rows_of
from pylogbroker.config.value_kinds import (
    BOOLEAN,
    INT_MAX,
    LIST,
    LONG,
    TEXT,
    ConfigType,
    NotAccepted,
    TypedKind,
    at_least,
    one_of,
)
from pylogbroker.config.values import Values
from pylogbroker.metadata.inter_broker_protocol import EXPECTED, InterBrokerProtocol, UnknownProtocolVersion

_LISTENERS = TypedKind[str](
    ConfigType.STRING,
    required=True,
    check=listeners.parse_endpoints,
    words="NAME://host:port, separated by commas, each name and port once",
)
_ADVERTISED = TypedKind[str](
    ConfigType.STRING,
    check=listeners.parse_endpoints,
    words="NAME://host:port, separated by commas, each name once",
)
_PROTOCOLS = TypedKind[str](
    ConfigType.STRING,
    check=listeners.parse_protocols,
    words="NAME:PROTOCOL pairs separated by commas, each name once",
)
_ADDRESS_LIMITS = TypedKind[str](
    ConfigType.STRING,
    check=listeners.parse_address_limits,
    words="host:number pairs separated by commas",
)


def _parse_protocol(text: str) -> InterBrokerProtocol:
    try:
        return InterBrokerProtocol.parse(text)
    except UnknownProtocolVersion as error:
        raise NotAccepted(str(error)) from None


_INTER_BROKER_PROTOCOL = TypedKind[str](ConfigType.STRING, check=_parse_protocol, words=EXPECTED)

_LOG_LEVELS = TypedKind[str](
    ConfigType.STRING,
    check=parse_log_levels,
    words="a level (debug, info, warn, error, critical), or package=level, separated by commas",
)


class NetworkRows(Values):
    __slots__ = ()

    # identity
    broker_id = fixed(
        "broker.id",
        at_least(-1),
        -1,
        "high",
        "Number of the broker in its cluster. With -1, the broker uses the number in its log directories, or else a "
        "new one above reserved.broker.max.id.",
        synonyms=(Synonym("node.id"),),
    )
    node_id = fixed("node.id", at_least(-1), -1, "high", "Another name for broker.id.")
    broker_id_generation_enable = fixed(
        "broker.id.generation.enable",
        BOOLEAN,
        True,
        "medium",
        "Whether a broker without broker.id generates one.",
    )
    reserved_broker_max_id = fixed(
        "reserved.broker.max.id",
        at_least(0),
        1000,
        "medium",
        "Largest broker.id that may be configured while numbers are generated.",
    )
    broker_rack = fixed("broker.rack", TEXT, None, "medium", "Rack (or zone) of the broker, reported to clients.")
    api_versions_release = fixed(
        "api.versions.release",
        one_of("auto", "3.9", "4.4"),
        "auto",
        "low",
        "Release of Kafka whose API versions the broker offers to clients. With auto, it is 4.4, but 3.9 in a cluster "
        "that ZooKeeper coordinates: brokers of Kafka 3.9 may be in it. Old clients work with both.",
    )
    initial_features = fixed(
        "initial.features",
        LIST,
        (),
        "low",
        "Levels of features with which a new cluster begins, such as group.version=0. Features that are not named "
        "begin with their newest level. Later, UpdateFeatures (kafka-features.sh) changes levels.",
    )
    inter_broker_protocol_version = fixed(
        "inter.broker.protocol.version",
        _INTER_BROKER_PROTOCOL,
        "3.9-IV0",
        "medium",
        "Version of the requests between brokers of a cluster. All of them must have the same: raise it when the last "
        "broker is upgraded.",
    )
    # listeners
    listeners_text = fixed(
        "listeners",
        _LISTENERS,
        "PLAINTEXT://127.0.0.1:9092",
        "high",
        "Addresses to listen on: NAME://host:port, separated by commas. The default is reachable from this machine "
        "only. Kafka's default is every interface: PLAINTEXT://:9092, without a host. Port 0 is any free port. A "
        "listener named SIMPLE serves clients of Kafka 0.7.",
    )
    advertised_listeners = fixed(
        "advertised.listeners",
        _ADVERTISED,
        None,
        "high",
        "Addresses for clients, if they differ from `listeners`.",
    )
    listener_security_protocol_map = fixed(
        "listener.security.protocol.map",
        _PROTOCOLS,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SIMPLE:SIMPLE",
        "low",
        "Protocol of each listener's name: PLAINTEXT is Kafka's protocol, SSL the same in TLS, SIMPLE that of Kafka "
        "0.7.",
    )
    security_inter_broker_protocol = fixed(
        "security.inter.broker.protocol",
        one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        "PLAINTEXT",
        "medium",
        "Brokers of a cluster connect to each other on the listener of this name. It counts only if it is set, and "
        "excludes inter.broker.listener.name.",
    )
    socket_listen_backlog_size = fixed(
        "socket.listen.backlog.size",
        at_least(1),
        1024,
        "medium",
        "Number of connections that may wait to be accepted. Further clients retry after a second.",
    )
    socket_receive_buffer_bytes = fixed(
        "socket.receive.buffer.bytes",
        at_least(-1),
        -1,
        "high",
        "Size of a socket's receive buffer. With -1, the operating system adapts it.",
    )
    socket_send_buffer_bytes = fixed(
        "socket.send.buffer.bytes",
        at_least(-1),
        -1,
        "high",
        "Size of a socket's send buffer. With -1, the operating system adapts it.",
    )
    # limits of connections
    socket_request_max_bytes = fixed(
        "socket.request.max.bytes",
        at_least(1),
        104_857_600,
        "high",
        "Largest request. The broker closes the connection of a larger one.",
    )
    queued_max_request_bytes = fixed(
        "queued.max.request.bytes",
        LONG,
        -1,
        "medium",
        "Memory for requests and responses of all connections together. Beyond it, the broker closes the connection "
        "that made no progress for the longest time. With -1, a quarter of the machine's memory.",
    )
    max_connections = cluster_wide(
        "max.connections",
        at_least(0),
        INT_MAX,
        "medium",
        "Maximum number of connections. Also for one listener: listener.name.<name>.max.connections.",
    )
    max_connections_per_ip = cluster_wide(
        "max.connections.per.ip",
        at_least(0),
        INT_MAX,
        "medium",
        "Maximum number of connections from one address.",
    )
    max_connections_per_ip_overrides = cluster_wide(
        "max.connections.per.ip.overrides",
        _ADDRESS_LIMITS,
        "",
        "medium",
        "Limits for single addresses: host:number, separated by commas.",
    )
    connections_max_idle_ms = fixed(
        "connections.max.idle.ms",
        LONG,
        600_000,
        "medium",
        "Time without a request after which a connection is closed; negative: never.",
    )
    # limits of responses
    fetch_max_bytes = fixed(
        "fetch.max.bytes", at_least(1024), 57_671_680, "medium", "Maximum bytes of records in one fetch response."
    )
    max_incremental_fetch_session_cache_slots = fixed(
        "max.incremental.fetch.session.cache.slots",
        at_least(0),
        1000,
        "medium",
        "Number of fetch sessions. In a session, a consumer names only what changed.",
    )
    max_request_partition_size_limit = fixed(
        "max.request.partition.size.limit",
        at_least(1),
        2000,
        "medium",
        "Maximum number of partitions in one DescribeTopicPartitions response.",
    )
    # clients' metrics
    client_telemetry_receivers = fixed(
        "client.telemetry.receivers",
        LIST,
        (),
        "low",
        "Names of plugins that get the metrics which clients push (KIP-714). Without one, telemetry is not offered.",
    )
    telemetry_max_bytes = fixed(
        "telemetry.max.bytes",
        at_least(1),
        1 << 20,
        "low",
        "Maximum size of the compressed metrics that a client pushes at once.",
    )
    # logging
    logger_levels = cluster_wide(
        "logger.levels",
        _LOG_LEVELS,
        "info",
        "low",
        "Log levels: debug, info, warn, error or critical; for a package: package=level. Example: "
        "info,pylogbroker.groups=debug. A program that embeds the broker filters its log itself.",
    )
    logger_format = fixed(
        "logger.format",
        one_of("text", "json"),
        "text",
        "low",
        "Format of the log that twistd writes to a file or to standard output: text, or json with one object in a "
        "line, which has time, level, namespace, text and fields.",
    )
    # threads
    reactor_stall_warn_ms = fixed(
        "reactor.stall.warn.ms",
        at_least(0),
        1000,
        "low",
        "Log the line of code that has used so much processor time without serving another connection; 0: never.",
    )
    testing_faults = fixed(
        "testing.faults",
        BOOLEAN,
        False,
        "low",
        "For tests of programs alone: a program that embeds the broker, or the page, injects faults. docs/testing.md.",
    )
    background_threads = cluster_wide(
        "background.threads",
        at_least(1),
        10,
        "high",
        "Number of threads for work that must not delay network traffic: syncs, conversions, deletions.",
    )
    num_io_threads = cluster_wide(
        "num.io.threads",
        at_least(1),
        8,
        "high",
        "Number of threads that read consumers' data which is on disk only. They have a lower priority than other "
        "threads.",
    )


NETWORK_SETTINGS = rows_of(NetworkRows)
