"""Older names of producer settings.

Settings of the first Kafka releases are translated, values included. `batch.size` is in bytes, as in Kafka now; that of
the first releases, a number of records, is `batch.num.messages`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pylogbroker.errors import ConfigError

_SYNONYMS: Final[Mapping[str, str]] = {
    "queue.time": "linger.ms",
    "queue.buffering.max.ms": "linger.ms",
    "queue.buffering.max.messages": "queue.size",
    "queue.enqueueTimeout.ms": "queue.enqueue.timeout.ms",
    "request.required.acks": "acks",
    "message.send.max.retries": "retries",
    "serializer.class": "value.serializer",
    "key.serializer.class": "key.serializer",
    "callback.handler": "callback.handlers",
    "compression.codec": "compression.type",
    "max.message.size": "max.request.size",
    "metadata.broker.list": "bootstrap.servers",
    "broker.list": "bootstrap.servers",
    "zk.connect": "zookeeper.connect",
    "zk.sessiontimeout.ms": "zookeeper.session.timeout.ms",
    "zk.connectiontimeout.ms": "zookeeper.connection.timeout.ms",
}

_CODECS: Final = {"0": "none", "1": "gzip", "2": "snappy", "3": "lz4", "4": "zstd"}


def translated(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return current names; raise ConfigError if one is given twice."""
    result: dict[str, Any] = {}
    for name, value in given.items():
        today = _SYNONYMS.get(name, name)
        if today in result:
            raise ConfigError(f"{today} is given twice: {name} means the same")
        result[today] = _CODECS.get(str(value), value) if name == "compression.codec" else value
    return result
