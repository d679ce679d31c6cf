"""The options that begin with `kafka.`: settings of a client, which here is another one than in Spark's source.

| setting                                            | what becomes of it                             |
|----------------------------------------------------|------------------------------------------------|
| has a meaning here (`pylogbroker.client.settings`) | is checked, and used                           |
| changes what is read or written, and cannot be had | an error; those that Spark's source refuses,   |
|                                                    | and security that would not be there           |
| looks like one that has a meaning, but is none     | an error: a misspelt one would do nothing      |
| everything else: of groups, polling, metrics, ...  | a warning                                      |
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from pylogbroker.client.settings import CONSUMER, PRODUCER, read
from pylogbroker.config import Setting, Values
from pylogbroker.config.kinds import INT_MAX
from pylogbroker.config.table import closest
from pylogbroker.errors import ConfigError
from pylogbroker.spark.options.given import Given

_CONNECTING: Final = (
    "bootstrap.servers",
    "client.id",
    "request.timeout.ms",
    "default.api.timeout.ms",
    "retry.backoff.ms",
    "retry.backoff.max.ms",
    "socket.connection.setup.timeout.ms",
    "send.buffer.bytes",
    "receive.buffer.bytes",
    "receive.message.max.bytes",
)
READING: Final = frozenset(
    {
        *_CONNECTING,
        "fetch.max.bytes",
        "fetch.max.wait.ms",
        "max.partition.fetch.bytes",
        "isolation.level",
        "client.rack",
        "check.crcs",
    }
)
"""The settings that have a meaning for the source."""
WRITING: Final = frozenset(PRODUCER) - {
    "producer.type",
    "queue.size",
    "queue.enqueue.timeout.ms",
    "batch.num.messages",
    "event.handler",
    "callback.handlers",
    "connections.max.idle.ms",
    "metadata.max.age.ms",
    "metadata.max.idle.ms",
    "linger.ms",
    "default.api.timeout.ms",
}
"""Those that may have one for the sink."""

_NOT_READING: Final[Mapping[str, str]] = {
    "auto.offset.reset": "set the option startingOffsets instead: the source itself keeps track of what was read",
    "key.deserializer": "keys are given as bytes: use DataFrame operations to deserialize them",
    "value.deserializer": "values are given as bytes: use DataFrame operations to deserialize them",
    "enable.auto.commit": "the source never commits offsets",
    "interceptor.classes": "interceptors could change what is read behind Spark's back",
}
_NOT_WRITING: Final[Mapping[str, str]] = {
    "key.serializer": "keys are strings or bytes: use DataFrame operations to serialize them",
    "value.serializer": "values are strings or bytes: use DataFrame operations to serialize them",
    "interceptor.classes": "interceptors could change what is written behind Spark's back",
    "partitioner.ignore.keys": "keys are partitioned as Java's producer does it: without them leave out the column key",
    "partitioner.class": "keys are partitioned as Java's producer does it: for anything else add a column partition",
    "transactional.id": "it is made of the query and the task; see the option transactionalIdPrefix",
}
_LEVELS: Final[Mapping[str, tuple[int, int]]] = {"gzip": (-1, 9), "lz4": (0, 17), "zstd": (-131_072, 22)}
_ALIKE: Final = 0.9
_OF_JAVA: Final = frozenset({"socket.connection.setup.timeout.max.ms"})  # of what there is, it alone looks like another
_DEFAULTS: Final[Mapping[str, Any]] = {
    "client.id": "pylogbroker-spark",
    "max.partition.fetch.bytes": 4 << 20,
    "batch.size": 512 << 10,
    "transaction.timeout.ms": 900_000,  # the most that brokers allow, unless they are told: from task to driver
}


def reading(given: Given) -> Values:
    """The settings of the source."""
    return _settings(given, given.of_clients(), CONSUMER, READING, _NOT_READING)


def writing(given: Given) -> Values:
    """The settings of the sink. For how long a call may take, Java's producers have max.block.ms."""
    texts = given.of_clients()
    if texts.get("partitioner.ignore.keys", "").strip().lower() == "false":
        del texts["partitioner.ignore.keys"]
    for codec in _LEVELS:
        level = texts.pop(f"compression.{codec}.level", None)
        if level is not None and texts.get("compression.type", "").strip() == codec:
            texts["compression.level"] = level
    settings = _settings(given, texts, PRODUCER, WRITING, _NOT_WRITING)
    _check_level(settings)
    longest = min(settings.integer("max.block.ms"), INT_MAX)
    return Values({**settings.by_name(), "default.api.timeout.ms": longest})


def _check_level(settings: Values) -> None:
    codec, level = settings.text("compression.type"), settings["compression.level"]
    if codec in _LEVELS and isinstance(level, int):
        least, most = _LEVELS[codec]
        if not least <= level <= most:
            raise ConfigError(f"option kafka.compression.level: {level} is not accepted; {codec} has {least} to {most}")


def _settings(
    given: Given,
    texts: dict[str, str],
    table: Mapping[str, Setting],
    meaningful: Collection[str],
    refused: Mapping[str, str],
) -> Values:
    for name, why in refused.items():
        if name in texts:
            raise ConfigError(f"option kafka.{name} is not accepted: {why}")
    if not texts.get("bootstrap.servers", "").strip():
        raise ConfigError("option kafka.bootstrap.servers is missing: give brokers, host:port, separated by commas")
    if texts.pop("security.protocol", "PLAINTEXT").strip().upper() != "PLAINTEXT":
        raise ConfigError("option kafka.security.protocol: only PLAINTEXT is spoken: without TLS and passwords")
    if "isolation.level" in texts:
        texts["isolation.level"] = texts["isolation.level"].lower()
    for name in sorted(texts.keys() - meaningful - CONSUMER.keys() - PRODUCER.keys() - _OF_JAVA):
        meant = closest(name, meaningful, _ALIKE)
        if meant is not None:
            raise ConfigError(f"option kafka.{name} is not known: did you mean kafka.{meant}?")
    used = {name: text for name, text in texts.items() if name in meaningful}
    for name in sorted(texts.keys() - meaningful):
        given.warnings.append(f"option kafka.{name} has no meaning here, and is passed over")
    defaults = {name: value for name, value in _DEFAULTS.items() if name in table}
    return read(table, {**defaults, **used})
