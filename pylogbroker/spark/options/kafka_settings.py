"""Options that begin with `kafka.`: settings of this package's client, not Java's.

| setting                                             | treatment                                       |
|-----------------------------------------------------|-------------------------------------------------|
| used here (`pylogbroker.client.settings`)           | validated and applied                           |
| changes what is read or written, but not supported  | an error: settings that Spark's source rejects, |
|                                                     | and security settings                           |
| unknown, but resembles a supported one              | an error: probably misspelt                     |
| any other: groups, polling, metrics, ...            | ignored with a warning                          |
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from pylogbroker.client.settings import CONSUMER, PRODUCER, read
from pylogbroker.config import Setting, Values
from pylogbroker.config.parsing import closest
from pylogbroker.config.security_settings import CLIENT_SECURITY_SETTINGS
from pylogbroker.config.value_kinds import INT_MAX
from pylogbroker.errors import ConfigError
from pylogbroker.spark.options.raw import RawOptions

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
    *(setting.name for setting in CLIENT_SECURITY_SETTINGS),
)
READING: Final = frozenset(
    {
        *_CONNECTING,
        "fetch.max.bytes",
        "fetch.max.wait.ms",
        "max.partition.fetch.bytes",
        "isolation.level",
        "check.crcs",
    }
)
_WRITING: Final = frozenset(PRODUCER) - {
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

_NOT_READING: Final[Mapping[str, str]] = {
    "auto.offset.reset": "set the option startingOffsets instead: the source keeps track of offsets itself",
    "key.deserializer": "keys are returned as bytes: use DataFrame operations to deserialize them",
    "value.deserializer": "values are returned as bytes: use DataFrame operations to deserialize them",
    "enable.auto.commit": "the source never commits offsets",
    "interceptor.classes": "interceptors could change what is read behind Spark's back",
}
_NOT_WRITING: Final[Mapping[str, str]] = {
    "key.serializer": "keys are strings or bytes: use DataFrame operations to serialize them",
    "value.serializer": "values are strings or bytes: use DataFrame operations to serialize them",
    "interceptor.classes": "interceptors could change what is written behind Spark's back",
    "partitioner.ignore.keys": "keys are partitioned as by Java's producer: to ignore keys, drop the column key",
    "partitioner.class": "keys are partitioned as by Java's producer: for other rules add a column partition",
    "transactional.id": "it is derived from the query and the task; see the option transactionalIdPrefix",
}
_LEVELS: Final[Mapping[str, tuple[int, int]]] = {"gzip": (-1, 9), "lz4": (0, 17), "zstd": (-131_072, 22)}
_SIMILARITY_MIN: Final = 0.9
_OF_JAVA: Final = frozenset({"socket.connection.setup.timeout.max.ms"})  # resembles a supported one
_DEFAULTS: Final[Mapping[str, Any]] = {
    "client.id": "pylogbroker-spark",
    "max.partition.fetch.bytes": 4 << 20,
    "batch.size": 512 << 10,
    "transaction.timeout.ms": 900_000,  # the brokers' default maximum; a transaction stays open from task to driver
}


def reading(raw: RawOptions) -> Values:
    return _settings(raw, raw.of_clients(), CONSUMER, READING, _NOT_READING)


def writing(raw: RawOptions) -> Values:
    """Return the sink's client settings. A call may take max.block.ms, as in Java's producer."""
    texts = raw.of_clients()
    if texts.get("partitioner.ignore.keys", "").strip().lower() == "false":
        del texts["partitioner.ignore.keys"]
    for codec in _LEVELS:
        level = texts.pop(f"compression.{codec}.level", None)
        if level is not None and texts.get("compression.type", "").strip() == codec:
            texts["compression.level"] = level
    settings = _settings(raw, texts, PRODUCER, _WRITING, _NOT_WRITING)
    _check_level(settings)
    longest = min(settings.integer("max.block.ms"), INT_MAX)
    return Values({**settings.by_name(), "default.api.timeout.ms": longest})


def _check_level(settings: Values) -> None:
    codec, level = settings.text("compression.type"), settings["compression.level"]
    if codec in _LEVELS and isinstance(level, int):
        least, most = _LEVELS[codec]
        if not least <= level <= most:
            raise ConfigError(
                f"option kafka.compression.level: {level} is not accepted; {codec} has levels {least} to {most}"
            )


def _settings(
    raw: RawOptions,
    texts: dict[str, str],
    table: Mapping[str, Setting],
    meaningful: Collection[str],
    rejected: Mapping[str, str],
) -> Values:
    for name, why in rejected.items():
        if name in texts:
            raise ConfigError(f"option kafka.{name} is not accepted: {why}")
    if not texts.get("bootstrap.servers", "").strip():
        raise ConfigError("option kafka.bootstrap.servers is missing: give brokers, host:port, separated by commas")
    if "isolation.level" in texts:
        texts["isolation.level"] = texts["isolation.level"].lower()
    for name in sorted(texts.keys() - meaningful - CONSUMER.keys() - PRODUCER.keys() - _OF_JAVA):
        meant = closest(name, meaningful, _SIMILARITY_MIN)
        if meant is not None:
            raise ConfigError(f"option kafka.{name} is unknown: did you mean kafka.{meant}?")
    used = {name: text for name, text in texts.items() if name in meaningful}
    for name in sorted(texts.keys() - meaningful):
        raw.warnings.append(f"option kafka.{name} has no effect here and is ignored")
    defaults = {name: value for name, value in _DEFAULTS.items() if name in table}
    return read(table, {**defaults, **used})
