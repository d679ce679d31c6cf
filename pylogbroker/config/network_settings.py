"""The broker's settings for who it is, where it listens and what a connection may cost."""

from __future__ import annotations

from pylogbroker.config import listeners
from pylogbroker.config.log_levels import parse_log_levels
from pylogbroker.config.setting import Setting, Synonym, cluster_wide, fixed
from pylogbroker.config.value_kinds import BOOLEAN, INT_MAX, LONG, TEXT, ConfigType, ValueKind, at_least

_LISTENERS = ValueKind(
    ConfigType.STRING,
    required=True,
    check=listeners.parse_endpoints,
    wanted="NAME://host:port, separated by commas, each name and port once",
)
_ADVERTISED = ValueKind(
    ConfigType.STRING,
    check=listeners.parse_endpoints,
    wanted="NAME://host:port, separated by commas, each name once",
)
_PROTOCOLS = ValueKind(
    ConfigType.STRING,
    check=listeners.parse_protocols,
    wanted="NAME:PROTOCOL pairs separated by commas, each name once",
)
_ADDRESS_LIMITS = ValueKind(
    ConfigType.STRING,
    check=listeners.parse_address_limits,
    wanted="host:number pairs separated by commas",
)

_LOG_LEVELS = ValueKind(
    ConfigType.STRING,
    check=parse_log_levels,
    wanted="a level (debug, info, warn, error, critical), or package=level, separated by commas",
)

NETWORK_SETTINGS: tuple[Setting, ...] = (
    # who the broker is
    fixed(
        "broker.id",
        at_least(-1),
        -1,
        "high",
        "The broker's number in its cluster. With -1 it is the one that the log directories remember, or else a new "
        "one above reserved.broker.max.id.",
        synonyms=(Synonym("node.id"),),
    ),
    fixed("node.id", at_least(-1), -1, "high", "Another name for broker.id."),
    fixed(
        "broker.id.generation.enable",
        BOOLEAN,
        True,
        "medium",
        "Whether a broker without broker.id gives itself a number.",
    ),
    fixed(
        "reserved.broker.max.id",
        at_least(0),
        1000,
        "medium",
        "The largest number that may be given as broker.id while numbers are generated.",
    ),
    fixed("broker.rack", TEXT, None, "medium", "The rack (or zone) that the broker stands in, told to clients."),
    # where it listens
    fixed(
        "listeners",
        _LISTENERS,
        "PLAINTEXT://127.0.0.1:9092",
        "high",
        "Where the broker listens: NAME://host:port, separated by commas. The default is reached from this machine "
        "only; Kafka's default is every interface, which is written without a host: PLAINTEXT://:9092. Port 0 is any "
        "free one. A listener called SIMPLE speaks the protocol of Kafka 0.7.",
    ),
    fixed(
        "advertised.listeners",
        _ADVERTISED,
        None,
        "high",
        "The addresses that clients are told to connect to, where they are not those of `listeners`.",
    ),
    fixed(
        "listener.security.protocol.map",
        _PROTOCOLS,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SIMPLE:SIMPLE",
        "low",
        "Which protocol each listener's name stands for: PLAINTEXT is Kafka's, SIMPLE that of Kafka 0.7.",
    ),
    fixed(
        "socket.listen.backlog.size",
        at_least(1),
        1024,
        "medium",
        "How many connections may wait to be accepted; what comes beyond is tried again by the peer after a second.",
    ),
    fixed(
        "socket.receive.buffer.bytes",
        at_least(-1),
        -1,
        "high",
        "The size of a socket's receive buffer; -1 leaves it to the system, which adapts it to the connection.",
    ),
    fixed(
        "socket.send.buffer.bytes",
        at_least(-1),
        -1,
        "high",
        "The size of a socket's send buffer; -1 leaves it to the system, which adapts it to the connection.",
    ),
    # what a connection may cost
    fixed(
        "socket.request.max.bytes",
        at_least(1),
        104_857_600,
        "high",
        "The largest request that is read. A larger one closes its connection.",
    ),
    fixed(
        "queued.max.request.bytes",
        LONG,
        -1,
        "medium",
        "How many bytes of requests may wait for their answers, over all connections, before no more is read; "
        "-1 leaves it to the broker.",
    ),
    cluster_wide("max.connections", at_least(0), INT_MAX, "medium", "How many connections the broker accepts at once."),
    cluster_wide(
        "max.connections.per.ip",
        at_least(0),
        INT_MAX,
        "medium",
        "How many connections the broker accepts at once from one address.",
    ),
    cluster_wide(
        "max.connections.per.ip.overrides",
        _ADDRESS_LIMITS,
        "",
        "medium",
        "Other limits for some addresses: host:number, separated by commas.",
    ),
    fixed(
        "connections.max.idle.ms",
        LONG,
        600_000,
        "medium",
        "After how long without a request a connection is closed; negative is never.",
    ),
    # what an answer may cost
    fixed("fetch.max.bytes", at_least(1024), 57_671_680, "medium", "The most bytes of records in one fetch answer."),
    fixed(
        "max.incremental.fetch.session.cache.slots",
        at_least(0),
        1000,
        "medium",
        "How many fetch sessions the broker remembers, so that a consumer need only name what changed.",
    ),
    fixed(
        "max.request.partition.size.limit",
        at_least(1),
        2000,
        "medium",
        "The most partitions that one DescribeTopicPartitions answer holds.",
    ),
    # what is logged
    cluster_wide(
        "logger.levels",
        _LOG_LEVELS,
        "info",
        "low",
        "From which level on events are logged: debug, info, warn, error or critical; separated by commas, "
        "package=level for a package: info,pylogbroker.groups=debug. A program that embeds the broker filters its log.",
    ),
    # threads
    fixed(
        "reactor.stall.warn.ms",
        at_least(0),
        1000,
        "low",
        "Log the line of code at which the broker has used so much processor time without serving another connection; "
        "0 logs nothing.",
    ),
    cluster_wide(
        "background.threads",
        at_least(1),
        10,
        "high",
        "How many threads do what must not hold up the network: forcing to disk, converting, removing files.",
    ),
    cluster_wide(
        "num.io.threads",
        at_least(1),
        8,
        "high",
        "How many threads read what is on the disk alone for consumers; they give way to all others.",
    ),
)
