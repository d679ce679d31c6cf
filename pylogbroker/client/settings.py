"""Settings of clients: three tables, and their effective values.

    settings = read(PRODUCER, {"linger.ms": 5}, acks="all")         # a mapping, or keywords with underscores
    settings.integer("linger.ms")

Names, units and defaults are Kafka's where it has the setting. Values may be text; None selects the default. Unknown
names and invalid values raise ConfigError, which names accepted ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pylogbroker.config import Importance, Setting, Values
from pylogbroker.config.parsing import closest, parse
from pylogbroker.config.security_settings import CLIENT_SECURITY_SETTINGS
from pylogbroker.config.value_kinds import (
    BOOLEAN,
    INT,
    INT_MAX,
    LONG,
    TEXT,
    ConfigType,
    Value,
    ValueKind,
    at_least,
    one_of,
    render,
)
from pylogbroker.errors import ConfigError

_LIST = ValueKind(ConfigType.LIST)
PLUGIN_ARGUMENTS: Mapping[str, str] = {
    "key.serializer": "key_encoder",
    "value.serializer": "encoder",
    "key.deserializer": "key_decoder",
    "value.deserializer": "decoder",
    "partitioner.class": "partitioner",
    "event.handler": "event_handler",
    "callback.handlers": "callback_handlers",
    "partition.assignment.strategy": "assignor",
}
"""Settings that name plugins, and the arguments for objects."""


def _row(name: str, kind: ValueKind, default: Value, doc: str) -> Setting:
    return Setting(name=name, kind=kind, default=default, importance=Importance.MEDIUM, doc=doc)


_COMMON: tuple[Setting, ...] = (
    _row("bootstrap.servers", _LIST, (), "Bootstrap brokers, host:port, separated by commas."),
    _row("client.id", TEXT, "pylogbroker", "The name that brokers show and log for this client."),
    # time
    _row("request.timeout.ms", at_least(1), 30_000, "How long to wait for a response before dropping the connection."),
    _row("default.api.timeout.ms", at_least(0), 60_000, "The timeout of calls without a timeout of their own."),
    _row(
        "retry.backoff.ms",
        at_least(0, LONG),
        100,
        "The pause before the first retry; it doubles with each further one.",
    ),
    _row("retry.backoff.max.ms", at_least(0, LONG), 1000, "The longest pause before a retry."),
    # connections
    _row("reconnect.backoff.ms", at_least(0, LONG), 50, "The pause before reconnecting to a broker; it doubles."),
    _row("reconnect.backoff.max.ms", at_least(0, LONG), 1000, "The longest pause before reconnecting to a broker."),
    _row(
        "socket.connection.setup.timeout.ms",
        at_least(1, LONG),
        10_000,
        "How long connecting to a broker and negotiating API versions may take.",
    ),
    _row(
        "bootstrap.connect.max.ms",
        at_least(-1, LONG),
        -1,
        "How long calls look for a first broker while none answers; -1: as long as their timeouts allow.",
    ),
    _row(
        "connections.max.idle.ms",
        at_least(-1, LONG),
        540_000,
        "How long a connection may be idle before it is closed; -1: for ever.",
    ),
    _row("send.buffer.bytes", at_least(-1), -1, "The size of a socket's send buffer; -1: the system chooses."),
    _row("receive.buffer.bytes", at_least(-1), -1, "The size of a socket's receive buffer; -1: the system chooses."),
    _row(
        "receive.message.max.bytes",
        at_least(1000),
        2**28 - 1,
        "The largest accepted response; a larger one shows that the peer is not a broker.",
    ),
    *CLIENT_SECURITY_SETTINGS,
    # metadata
    _row("metadata.max.age.ms", at_least(1, LONG), 300_000, "How often to refresh metadata of brokers and topics."),
    _row("metadata.max.idle.ms", at_least(0, LONG), 300_000, "How long a topic that does not exist is requested."),
    _row(
        "topic.metadata.propagation.max.ms",
        at_least(0, LONG),
        2000,
        "How long a producer waits for a topic that brokers do not know: it may have been created just now.",
    ),
    _row(
        "allow.auto.create.topics", BOOLEAN, True, "Whether requesting a topic may create it, if the broker allows it."
    ),
)

_ZOOKEEPER: tuple[Setting, ...] = (
    _row("zookeeper.connect", TEXT, None, "The cluster's ZooKeeper: host:port[,host:port...][/chroot]."),
    _row(
        "zookeeper.session.timeout.ms",
        at_least(1),
        6000,
        "Time without contact after which ZooKeeper considers a client dead.",
    ),
    _row(
        "zookeeper.connection.timeout.ms",
        at_least(1),
        None,
        "How long connecting to ZooKeeper may take; if unset: zookeeper.session.timeout.ms.",
    ),
)

_PRODUCER: tuple[Setting, ...] = (
    _row("max.block.ms", at_least(0, LONG), 60_000, "How long a record may wait for queue space or for metadata."),
    # the queue
    _row(
        "producer.type",
        one_of("async", "sync"),
        "async",
        "async: records wait in a queue to be batched. sync: each record is sent at once, alone.",
    ),
    _row("linger.ms", at_least(0, LONG), 0, "How long to wait for more records; 0: until the next reactor iteration."),
    _row("batch.size", at_least(1), 16_384, "The maximum bytes of a batch, before compression."),
    _row("batch.num.messages", at_least(0), 0, "The maximum records of a batch; 0: limited only by bytes."),
    _row("buffer.memory", at_least(1, LONG), 33_554_432, "The maximum bytes of queued and in-flight records."),
    _row("queue.size", at_least(0), 0, "The maximum number of queued and in-flight records; 0: no limit."),
    _row(
        "queue.enqueue.timeout.ms",
        at_least(-1, LONG),
        None,
        "How long a record may wait for queue space. 0: it fails at once; -1: for ever; unset: max.block.ms.",
    ),
    # plugins
    _row("value.serializer", TEXT, "bytes", "The encoder of values."),
    _row("key.serializer", TEXT, "bytes", "The encoder of keys."),
    _row("partitioner.class", TEXT, "hash", "The partitioner."),
    _row("event.handler", TEXT, None, "The event handler; if unset, records are serialized and sent."),
    _row("callback.handlers", _LIST, (), "Callback handlers, in the order in which they are called."),
    # requests
    _row("acks", one_of("all", "-1", "1", "0"), "all", "Which replicas must have a batch to acknowledge it; 0: none."),
    _row("compression.type", one_of("none", "gzip", "snappy", "lz4", "zstd"), "none", "How batches are compressed."),
    _row("compression.level", INT, None, "The compression level; if unset, the codec's default."),
    _row("compressed.topics", _LIST, (), "The topics whose batches are compressed; if empty, all."),
    _row("max.request.size", at_least(1), 1_048_576, "The maximum bytes of a request, or of one record."),
    _row(
        "max.in.flight.requests.per.connection",
        at_least(1),
        None,
        "The maximum requests in flight to a broker. If unset 5; without idempotence 1, which keeps the order.",
    ),
    _row("retries", at_least(0), INT_MAX, "How often a batch is retried, within delivery.timeout.ms."),
    _row("delivery.timeout.ms", at_least(1), 120_000, "How long the acknowledgement of a record may take."),
    _row("enable.idempotence", BOOLEAN, None, "Whether brokers discard duplicate batches. If unset: if acks is all."),
    _row("transactional.id", TEXT, None, "The name of a transactional producer, which survives a restart."),
    _row("transaction.timeout.ms", at_least(1), 60_000, "After how long the broker aborts an open transaction."),
)

_CONSUMER: tuple[Setting, ...] = (
    # the group
    _row(
        "group.protocol",
        one_of("classic", "consumer"),
        "classic",
        "Who assigns the partitions: a member of the group (classic), or the broker (consumer, KIP-848).",
    ),
    _row(
        "group.remote.assignor",
        TEXT,
        None,
        "The broker's assignor, with group.protocol=consumer; if unset, the broker chooses.",
    ),
    _row("group.instance.id", TEXT, None, "The name of a static member, which keeps its partitions after a restart."),
    _row("session.timeout.ms", at_least(1), 45_000, "After how long without a heartbeat a member is removed."),
    _row("heartbeat.interval.ms", at_least(1), 3000, "How often a member sends a heartbeat."),
    _row("max.poll.interval.ms", at_least(1), 300_000, "How long a rebalance waits for each member."),
    _row(
        "partition.assignment.strategy",
        _LIST,
        ("range", "cooperative-sticky"),
        "Assignors in order of preference; all members of a group need one in common.",
    ),
    _row(
        "rebalance.wait.ms",
        at_least(0),
        5000,
        "How long revoking a partition waits for its reader to process the messages that it has.",
    ),
    # offsets
    _row(
        "auto.offset.reset",
        one_of("earliest", "latest", "none", "smallest", "largest"),
        "latest",
        "Where to start without a valid committed offset: smallest and largest are older names of earliest and latest.",
    ),
    _row("enable.auto.commit", BOOLEAN, True, "Whether to commit the processed messages periodically."),
    _row("auto.commit.interval.ms", at_least(1), 5000, "The interval of automatic commits."),
    _row(
        "offsets.storage",
        one_of("kafka", "zookeeper"),
        "kafka",
        "Where offsets are committed: with the brokers (kafka) or in the coordination tree (zookeeper).",
    ),
    _row(
        "dual.commit.enabled",
        BOOLEAN,
        False,
        "Whether to commit to both, and to start at the larger of the two offsets: for migration between them.",
    ),
    # groups in the coordination tree
    _row("rebalance.max.retries", at_least(1), 4, "After how many failed rebalances readers get the error."),
    _row("rebalance.backoff.ms", at_least(1), 2000, "The pause before a rebalance is retried."),
    # fetching
    _row("fetch.min.bytes", at_least(0), 1, "The bytes at which a fetch is answered before fetch.max.wait.ms."),
    _row("fetch.max.bytes", at_least(0), 52_428_800, "The maximum bytes of a response, though at least one batch."),
    _row("fetch.max.wait.ms", at_least(0), 500, "How long the broker may wait for fetch.min.bytes."),
    _row(
        "max.partition.fetch.bytes",
        at_least(1),
        1_048_576,
        "The maximum bytes of a partition in a response; fetching pauses while a stream has as many bytes unread.",
    ),
    _row(
        "isolation.level",
        one_of("read_uncommitted", "read_committed"),
        "read_uncommitted",
        "Which messages of transactions to read.",
    ),
    _row("client.rack", TEXT, "", "The rack of this client, so that assignors can prefer nearby replicas."),
    _row("check.crcs", BOOLEAN, True, "Whether to verify the checksums of fetched batches."),
    # streams
    _row("max.poll.records", at_least(1), 500, "The default maximum number of messages of get_many."),
    _row("consumer.timeout.ms", at_least(-1), -1, "How long a stream's iterator waits for a message; -1: for ever."),
    _row("exclude.internal.topics", BOOLEAN, True, "Whether filters exclude the internal topics of Kafka."),
    _row("key.deserializer", TEXT, "bytes", "The decoder of keys."),
    _row("value.deserializer", TEXT, "bytes", "The decoder of values."),
)


_SHARE: tuple[Setting, ...] = (
    _row(
        "share.acknowledgement.mode",
        one_of("implicit", "explicit"),
        "implicit",
        "Whether the next poll accepts the messages of the one before (implicit), or must find all acknowledged.",
    ),
    _row(
        "share.acquire.mode",
        one_of("batch_optimized", "record_limit"),
        "batch_optimized",
        "Whether a poll may acquire more than max.poll.records up to the end of a batch, or never more.",
    ),
)
_OF_SHARE_TOO = frozenset(
    {
        "client.rack",
        "fetch.min.bytes",
        "fetch.max.bytes",
        "fetch.max.wait.ms",
        "max.poll.records",
        "check.crcs",
        "key.deserializer",
        "value.deserializer",
    }
)


def _table(*groups: Iterable[Setting]) -> Mapping[str, Setting]:
    return {setting.name: setting for group in groups for setting in group}


CLIENT: Mapping[str, Setting] = _table(_COMMON)
PRODUCER: Mapping[str, Setting] = _table(_COMMON, _ZOOKEEPER, _PRODUCER)
CONSUMER: Mapping[str, Setting] = _table(_COMMON, _ZOOKEEPER, _CONSUMER)
SHARE_CONSUMER: Mapping[str, Setting] = _table(
    _COMMON, (setting for setting in _CONSUMER if setting.name in _OF_SHARE_TOO), _SHARE
)


def read(
    table: Mapping[str, Setting],
    settings: Mapping[str, Any] | None = None,
    arguments: Iterable[str] = (),
    **named: Any,
) -> Values:
    """Return values of all settings; raise ConfigError. `arguments` are names that may be meant, too."""
    given = as_mapping(settings)
    for keyword, value in named.items():
        name = keyword.replace("_", ".")
        if name in given:
            raise ConfigError(f"{name} is given twice: in the settings and as {keyword}")
        given[name] = value
    values: dict[str, Value] = {name: setting.default for name, setting in table.items()}
    for name, value in given.items():
        if name not in table:
            raise ConfigError(_unknown(name, table, arguments))
        if value is not None:
            values[name] = _value(table[name], value)
    return Values(values)


def as_mapping(settings: Mapping[str, Any] | None) -> dict[str, Any]:
    """Raise ConfigError unless the settings are a mapping."""
    if settings is not None and not isinstance(settings, Mapping):
        raise ConfigError(f"settings: {settings!r} is not accepted; expected a mapping such as {{'client.id': 'me'}}")
    return dict(settings or {})


def _value(setting: Setting, given: object) -> Value:
    match given:
        case str():
            return parse(setting, given)
        case bool() | int() | float():
            return parse(setting, render(given) or "")
        case list() | tuple() | set() | frozenset():
            return parse(setting, ",".join(str(item) for item in given))
    shown = "this value" if setting.sensitive else repr(given)
    raise ConfigError(f"{setting.name}: {shown} is not accepted; expected {_expected(setting)}")


def _expected(setting: Setting) -> str:
    argument = PLUGIN_ARGUMENTS.get(setting.name)
    return f"the name of a plugin; pass an object as {argument}=" if argument else setting.kind.expected


def _unknown(name: object, table: Mapping[str, Setting], arguments: Iterable[str]) -> str:
    if name == "group.id":
        return "group.id is not a setting of this client: pass the group as group="
    by_name = {argument.replace("_", "."): f"the argument {argument}" for argument in arguments}
    near = closest(str(name), [*by_name, *table])
    cure = f"did you mean {by_name.get(near, near)}?" if near else f"the settings are {', '.join(sorted(table))}"
    return f"{name} is not a setting of this client: {cure}"
