"""Plugins, settings and arguments of a producer: lookup and validation."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from pylogbroker.client.callbacks import Callbacks
from pylogbroker.client.errors import RecordTooLarge
from pylogbroker.client.plugin_guards import Encode, Partitioners, guarded_encoder
from pylogbroker.client.plugin_lookup import (
    CALLBACK_HANDLER,
    ENCODER,
    EVENT_HANDLER,
    ResolvedPlugin,
    resolve_plugin,
    resolve_plugins,
)
from pylogbroker.client.producer.options import ProducerOptions
from pylogbroker.client.producer.settings import translated
from pylogbroker.client.settings import as_mapping
from pylogbroker.client.sources import BrokerSource, StaticBrokers, TreeBrokers
from pylogbroker.config import Values
from pylogbroker.errors import ConfigError, ErrorCode, InvalidRecords, KafkaError
from pylogbroker.interfaces import IEventHandler, ITree
from pylogbroker.records import Header
from pylogbroker.rpc.security import security_protocol

_PLAIN: Final = "bytes"
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")


@attrs.frozen
class Plugins:
    """Encoders and partitioner; with `plain_values` or `plain_keys`, bytes need no encoder."""

    encode: Encode
    encode_key: Encode
    plain_values: bool
    plain_keys: bool
    partitioners: Partitioners
    callbacks: Callbacks
    handler: ResolvedPlugin[IEventHandler] | None


def plugins_of(choices: Mapping[str, Any], values: Values) -> Plugins:
    """Raise ConfigError for invalid plugins."""
    settings = values.by_name()
    value_encoder = resolve_plugin(ENCODER, "value.serializer", choices["value.serializer"], settings)
    key_encoder = resolve_plugin(ENCODER, "key.serializer", choices["key.serializer"], settings)
    handlers, handler = choices["callback.handlers"], choices["event.handler"]
    return Plugins(
        encode=guarded_encoder(value_encoder),
        encode_key=guarded_encoder(key_encoder),
        plain_values=choices["value.serializer"] == _PLAIN,
        plain_keys=choices["key.serializer"] == _PLAIN,
        partitioners=Partitioners("partitioner.class", choices["partitioner.class"], settings),
        callbacks=Callbacks(resolve_plugins(CALLBACK_HANDLER, "callback.handlers", handlers, settings)),
        handler=None if handler is None else resolve_plugin(EVENT_HANDLER, "event.handler", handler, settings),
    )


def merged_settings(settings: Mapping[str, Any] | None, named: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings under current names; raise ConfigError for duplicates."""
    given = translated(as_mapping(settings))
    for name, value in translated({keyword.replace("_", "."): value for keyword, value in named.items()}).items():
        if name in given:
            raise ConfigError(f"{name} is given twice: in the settings and as a keyword")
        given[name] = value
    return given


def source_of(bootstrap: str | Sequence[str] | None, coordination: ITree | None, values: Values) -> BrokerSource:
    if coordination is not None:
        return TreeBrokers(coordination, security_protocol(values))
    return StaticBrokers(bootstrap if bootstrap is not None else values.texts("bootstrap.servers"))


def check_topic(name: object) -> None:
    if not isinstance(name, str) or not _TOPIC.fullmatch(name) or name in (".", ".."):
        raise KafkaError(f"{name!r} cannot be the name of a topic", ErrorCode.INVALID_TOPIC_EXCEPTION)


def check_partition(number: object) -> None:
    if type(number) is not int and number is not None and not hasattr(number, "__index__"):
        raise InvalidRecords(f"partition: {number!r} is not accepted; expected a number")


def check_time(timestamp: object) -> None:
    if type(timestamp) is not int or not 0 <= timestamp < 1 << 63:
        raise InvalidRecords(f"a timestamp is a number of milliseconds since 1970; not {timestamp!r}")


def checked_headers(headers: Sequence[Header], size: int) -> tuple[tuple[Header, ...], int]:
    """Return headers, and the record's size with them."""
    checked = []
    for header in headers:
        if not isinstance(header, tuple | list) or len(header) != 2:
            raise InvalidRecords(f"headers are pairs of a name and a value, in their order; not {header!r}")
        name, data = header
        if type(name) is not str or not (data is None or type(data) is bytes):
            raise InvalidRecords(f"a header is a text and bytes, or None; not {name!r} and {type(data).__name__}")
        size += 8 + 3 * len(name) + len(data or b"")
        checked.append((name, data))
    return tuple(checked), size


def too_large(size: int, options: ProducerOptions) -> RecordTooLarge:
    return RecordTooLarge(f"the record takes {size} bytes; max.request.size is {options.max_request_size}")
