"""The settings of producers: their rows of the client's table, and what older names mean.

The table is read by `pylogbroker.client.settings`, which adds what all clients share.

Kafka's own names come first. Those of the first releases mean the same as a newer one where there is one; they are
translated, values included, before the table is looked at. `batch.size` is Kafka's, in bytes; the number of records
that the first releases had under that name is `batch.num.messages`, as in the releases that followed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pylogbroker.errors import ConfigError

SYNONYMS: Final[Mapping[str, str]] = {
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
}

_CODECS: Final = {"0": "none", "1": "gzip", "2": "snappy", "3": "lz4", "4": "zstd"}


def translated(given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings by their names of today; ConfigError if one is given under two names."""
    result: dict[str, Any] = {}
    for name, value in given.items():
        today = SYNONYMS.get(name, name)
        if today in result:
            raise ConfigError(f"{today} is given twice: {name} means the same")
        result[today] = _CODECS.get(str(value), value) if name == "compression.codec" else value
    return result
