"""The settings of clients: three tables, and the values in force.

    settings = read(PRODUCER, {"linger.ms": 5}, acks="all")         # a mapping, or keywords with underscores
    settings.integer("linger.ms")

Names, units and defaults are Kafka's wherever Kafka has the setting. `CLIENT` holds what all clients share; `PRODUCER`
and `CONSUMER` hold it too, and what is theirs. A value may be given as itself or as text; None leaves the default.
An unknown name or a value that is not accepted raises ConfigError, which names what is accepted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pylogbroker.config import Importance, Setting, Values
from pylogbroker.config.kinds import (
    BOOLEAN,
    INT,
    INT_MAX,
    LONG,
    TEXT,
    ConfigType,
    Kind,
    Value,
    at_least,
    one_of,
    render,
)
from pylogbroker.config.table import closest, parse
from pylogbroker.errors import ConfigError

_LIST = Kind(ConfigType.LIST)
#: What names a plugin: an object is not given here, but as that argument.
_OBJECTS: Mapping[str, str] = {
    "key.serializer": "key_encoder=",
    "value.serializer": "encoder=",
    "key.deserializer": "key_decoder=",
    "value.deserializer": "decoder=",
    "partitioner.class": "partitioner=",
    "event.handler": "event_handler=",
}
_SECURITY = ("security.", "ssl.", "sasl.")


def _row(name: str, kind: Kind, default: Value, doc: str) -> Setting:
    return Setting(name=name, kind=kind, default=default, importance=Importance.MEDIUM, doc=doc)


_COMMON: tuple[Setting, ...] = (
    _row("bootstrap.servers", _LIST, (), "Brokers to begin with, host:port, separated by commas."),
    _row("client.id", TEXT, "pylogbroker", "The name that brokers show and log for this client."),
    # time
    _row("request.timeout.ms", at_least(1), 30_000, "How long an answer may take before its connection is dropped."),
    _row("default.api.timeout.ms", at_least(0), 60_000, "How long a call may take that has no timeout of its own."),
    _row(
        "retry.backoff.ms", at_least(0, LONG), 100, "The pause before something is tried again; it doubles each time."
    ),
    _row("retry.backoff.max.ms", at_least(0, LONG), 1000, "The longest pause before something is tried again."),
    # connections
    _row("reconnect.backoff.ms", at_least(0, LONG), 50, "The pause before a broker is connected to again; it doubles."),
    _row(
        "reconnect.backoff.max.ms", at_least(0, LONG), 1000, "The longest pause before a broker is connected to again."
    ),
    _row(
        "socket.connection.setup.timeout.ms",
        at_least(1, LONG),
        10_000,
        "How long a broker may take to accept a connection and to say what it speaks.",
    ),
    _row(
        "connections.max.idle.ms",
        at_least(-1, LONG),
        540_000,
        "After how long without a request a connection is closed; -1: never.",
    ),
    _row("send.buffer.bytes", at_least(-1), -1, "The size of a socket's send buffer; -1: the system chooses."),
    _row("receive.buffer.bytes", at_least(-1), -1, "The size of a socket's receive buffer; -1: the system chooses."),
    _row(
        "receive.message.max.bytes",
        at_least(1000),
        2**28 - 1,
        "The largest answer that is taken; what claims to be larger is taken for something that is not a broker.",
    ),
    # metadata
    _row("metadata.max.age.ms", at_least(1, LONG), 300_000, "How often brokers and topics are asked for anew."),
    _row("metadata.max.idle.ms", at_least(0, LONG), 300_000, "For how long a topic that there is not is asked for."),
    _row(
        "allow.auto.create.topics", BOOLEAN, True, "Whether asking for a topic may create it, if the broker does that."
    ),
)

_PRODUCER: tuple[Setting, ...] = (
    _row("max.block.ms", at_least(0, LONG), 60_000, "How long a record may wait for room, or to learn where it goes."),
    # the queue
    _row(
        "producer.type",
        one_of("async", "sync"),
        "async",
        "async: records wait in a queue for others to leave with. sync: each leaves at once, alone.",
    ),
    _row("linger.ms", at_least(0, LONG), 0, "How long a record may wait for others; 0: until the reactor's next turn."),
    _row("batch.size", at_least(1), 16_384, "How many bytes a batch takes, before compression."),
    _row("batch.num.messages", at_least(0), 0, "How many records a batch takes; 0: as many as its bytes allow."),
    _row("buffer.memory", at_least(1, LONG), 33_554_432, "How many bytes the queue takes, and what is on its way."),
    _row("queue.size", at_least(0), 0, "How many records the queue takes, and what is on its way; 0: no bound."),
    _row(
        "queue.enqueue.timeout.ms",
        at_least(-1, LONG),
        None,
        "How long a record may wait for room. 0: it is dropped at once; -1: for ever; unless set, max.block.ms.",
    ),
    # plugins
    _row("value.serializer", TEXT, "bytes", "The encoder of values."),
    _row("key.serializer", TEXT, "bytes", "The encoder of keys."),
    _row("partitioner.class", TEXT, "hash", "The partitioner."),
    _row("event.handler", TEXT, None, "The event handler; unless set, records are serialized and sent."),
    _row("callback.handlers", _LIST, (), "Callback handlers, in the order in which they are called."),
    # requests
    _row("acks", one_of("all", "-1", "1", "0"), "all", "Who must have a batch before it is acknowledged; 0: nobody."),
    _row("compression.type", one_of("none", "gzip", "snappy", "lz4", "zstd"), "none", "How batches are compressed."),
    _row("compression.level", INT, None, "How hard; unless set, as the codec has it."),
    _row("compressed.topics", _LIST, (), "The topics whose batches are compressed; none: all."),
    _row("max.request.size", at_least(1), 1_048_576, "The most bytes of a request, or of one record."),
    _row(
        "max.in.flight.requests.per.connection",
        at_least(1),
        None,
        "How many requests a broker may have to answer. Unless set 5; without idempotence 1, so that order is kept.",
    ),
    _row("retries", at_least(0), INT_MAX, "How often a batch is sent again, within delivery.timeout.ms."),
    _row("delivery.timeout.ms", at_least(1), 120_000, "How long a record may take until it is acknowledged."),
    _row("enable.idempotence", BOOLEAN, None, "Whether repeated batches are recognized. Unless set, if acks is all."),
    _row("transactional.id", TEXT, None, "The name of a producer with transactions, the same after a restart."),
    _row("transaction.timeout.ms", at_least(1), 60_000, "After how long the broker aborts a transaction by itself."),
)

_CONSUMER: tuple[Setting, ...] = (
    # the group
    _row("group.instance.id", TEXT, None, "A name that this member has after a restart too: it keeps its partitions."),
    _row("session.timeout.ms", at_least(1), 45_000, "After how long without a heartbeat a member counts as dead."),
    _row("heartbeat.interval.ms", at_least(1), 3000, "How often a member says that it lives."),
    _row("max.poll.interval.ms", at_least(1), 300_000, "How long a rebalance waits for each member."),
    _row(
        "partition.assignment.strategy",
        _LIST,
        ("range", "cooperative-sticky"),
        "Assignors by falling preference; all members of a group need one in common.",
    ),
    _row(
        "rebalance.wait.ms",
        at_least(0),
        5000,
        "How long giving up a partition waits for its reader to be done with what it was given.",
    ),
    # offsets
    _row(
        "auto.offset.reset",
        one_of("earliest", "latest", "none", "smallest", "largest"),
        "latest",
        "Where to begin if nothing valid is committed: smallest and largest are older words for earliest and latest.",
    ),
    _row("enable.auto.commit", BOOLEAN, True, "Whether to commit by and by what readers are done with."),
    _row("auto.commit.interval.ms", at_least(1), 5000, "How often that is."),
    _row(
        "offsets.storage",
        one_of("kafka", "zookeeper"),
        "kafka",
        "Where committed offsets are: with the brokers (kafka) or in the coordination tree (zookeeper).",
    ),
    _row(
        "dual.commit.enabled",
        BOOLEAN,
        False,
        "Whether to commit to both, and to begin at the larger of the two offsets: to move from one to the other.",
    ),
    # groups that agree in the coordination tree
    _row("rebalance.max.retries", at_least(1), 4, "After how many vain rebalances readers are told of it."),
    _row("rebalance.backoff.ms", at_least(1), 2000, "The pause before a rebalance is tried again."),
    # fetching
    _row("fetch.min.bytes", at_least(0), 1, "How many bytes there must be before a fetch is answered early."),
    _row("fetch.max.bytes", at_least(0), 52_428_800, "The most bytes of an answer, though never less than one batch."),
    _row("fetch.max.wait.ms", at_least(0), 500, "How long the broker may wait for fetch.min.bytes."),
    _row(
        "max.partition.fetch.bytes",
        at_least(1),
        1_048_576,
        "The most bytes of a partition in an answer; fetching pauses while a stream has left as many unread.",
    ),
    _row(
        "isolation.level",
        one_of("read_uncommitted", "read_committed"),
        "read_uncommitted",
        "What to see of transactions.",
    ),
    _row("client.rack", TEXT, "", "Where this client runs, so that assignors can look for replicas nearby."),
    _row("check.crcs", BOOLEAN, True, "Whether to compare the checksums of what is fetched."),
    # streams
    _row("max.poll.records", at_least(1), 500, "How many messages get_many gives at most, unless told."),
    _row("consumer.timeout.ms", at_least(-1), -1, "How long a stream's iterator waits for a message; -1: for ever."),
    _row("exclude.internal.topics", BOOLEAN, True, "Whether filters pass over the topics that Kafka keeps for itself."),
    _row("key.deserializer", TEXT, "bytes", "The decoder of keys."),
    _row("value.deserializer", TEXT, "bytes", "The decoder of values."),
)


def _table(*groups: Iterable[Setting]) -> Mapping[str, Setting]:
    return {setting.name: setting for group in groups for setting in group}


CLIENT: Mapping[str, Setting] = _table(_COMMON)
PRODUCER: Mapping[str, Setting] = _table(_COMMON, _PRODUCER)
CONSUMER: Mapping[str, Setting] = _table(_COMMON, _CONSUMER)


def read(table: Mapping[str, Setting], settings: Mapping[str, Any] | None = None, **named: Any) -> Values:
    """The values in force: those given, by Kafka's names or as keywords, and the defaults."""
    given = as_mapping(settings)
    for keyword, value in named.items():
        name = keyword.replace("_", ".")
        if name in given:
            raise ConfigError(f"{name} is given twice: in the settings and as {keyword}")
        given[name] = value
    values: dict[str, Value] = {name: setting.default for name, setting in table.items()}
    for name, value in given.items():
        if name not in table:
            raise ConfigError(_unknown(name, table))
        if value is not None:
            values[name] = _value(table[name], value)
    return Values(values)


def as_mapping(settings: Mapping[str, Any] | None) -> dict[str, Any]:
    """Settings as they are given; ConfigError if they have no names."""
    if settings is not None and not isinstance(settings, Mapping):
        raise ConfigError(f"settings: {settings!r} is not accepted; expected {{'client.id': 'me'}}, say")
    return dict(settings or {})


def _value(setting: Setting, given: object) -> Value:
    """A value as it is, or its text: either is checked in the same way."""
    match given:
        case str():
            return parse(setting, given)
        case bool() | int() | float():
            return parse(setting, render(given) or "")
        case list() | tuple() | set() | frozenset():
            return parse(setting, ",".join(str(item) for item in given))
    raise ConfigError(f"{setting.name}: {given!r} is not accepted; expected {_expected(setting)}")


def _expected(setting: Setting) -> str:
    argument = _OBJECTS.get(setting.name)
    return f"the name of a plugin; an object is given as {argument}" if argument else setting.kind.expected


def _unknown(name: object, table: Mapping[str, Setting]) -> str:
    if name == "group.id":
        return "group.id is no setting here: the group is given as group="
    if str(name).startswith(_SECURITY):
        return f"{name}: this client speaks PLAINTEXT alone, without TLS and passwords"
    near = closest(str(name), table)
    cure = f"did you mean {near}?" if near else f"there are {', '.join(sorted(table))}"
    return f"{name} is not a setting of this client: {cure}"
