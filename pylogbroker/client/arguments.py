"""Validation of client methods' arguments; each error names the argument and the value.

Without it, errors would occur far from their cause, or never.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from inspect import Parameter, signature
from ipaddress import IPv6Address
from numbers import Real
from operator import index
from typing import Any, Final, TypeVar

from pylogbroker.errors import ConfigError
from pylogbroker.interfaces import TopicPartition

T = TypeVar("T")

_INT32_MAX: Final = (1 << 31) - 1
_INT64_MAX: Final = (1 << 63) - 1


def invalid(argument: str, value: object, expected: str) -> ConfigError:
    return ConfigError(f"{argument}: {value!r} is not accepted; expected {expected}")


def name(argument: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise invalid(argument, value, "a name")
    return value


def text(argument: str, value: Any) -> str:
    """Validate a text that may be a secret: the error does not show it."""
    if not isinstance(value, str):
        raise ConfigError(f"{argument}: {type(value).__name__} is not accepted; expected a text")
    return value


def names(argument: str, value: Any) -> list[str]:
    """Validate several names; a single one would be taken for its characters."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise invalid(argument, value, "several names, such as ['orders']")
    return [name(argument, one) for one in value]


def instances(argument: str, value: Any, kind: type[T], example: str) -> list[T]:
    """Validate several values of a class; `example` is one for the error."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise invalid(argument, value, f"several of {kind.__name__}, such as [{example}]")
    values = list(value)
    for one in values:
        if not isinstance(one, kind):
            raise invalid(argument, one, f"{kind.__name__}, such as {example}")
    return values


def by_key(argument: str, value: Any, example: str) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise invalid(argument, value, f"a mapping such as {example}")
    return value


def setting_texts(argument: str, value: Any) -> dict[str, str | None]:
    """Return settings as texts, with numbers and booleans as Kafka writes them; None stays."""
    texts: dict[str, str | None] = {}
    for key, given in by_key(argument, value, "{'retention.ms': 3600000}").items():
        if given is not None and not isinstance(given, str | bool | int | float):
            raise invalid(f"{argument}[{key!r}]", given, "a text, a number, True or False")
        text = str(given).lower() if isinstance(given, bool) else given
        texts[name(argument, key)] = None if text is None else str(text)
    return texts


def number(argument: str, value: Any, minimum: int = 0, maximum: int = _INT32_MAX) -> int:
    try:
        integer = None if isinstance(value, bool) else index(value)
    except TypeError:
        integer = None
    if integer is None or not minimum <= integer <= maximum:
        raise invalid(argument, value, f"a whole number from {minimum} to {maximum}")
    return integer


def broker_ids(argument: str, value: Any) -> list[int]:
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise invalid(argument, value, "ids of brokers, such as [1, 2]")
    return [number(argument, broker) for broker in value]


def offset(argument: str, value: Any) -> int:
    return number(argument, value, 0, _INT64_MAX)


def whole(argument: str, value: Any) -> int:
    """Validate a signed 64-bit number."""
    return number(argument, value, -_INT64_MAX, _INT64_MAX)


def seconds(argument: str, value: Any) -> float:
    if not isinstance(value, Real) or isinstance(value, bool) or not float(value) >= 0:  # a NaN, too
        raise invalid(argument, value, "a number of seconds; math.inf means no limit")
    return float(value)


def host(argument: str, value: Any) -> str:
    """Validate a host without a port."""
    if ":" in name(argument, value):
        try:
            IPv6Address(value)
        except ValueError:
            raise invalid(argument, value, "a host without a port; pass the port as its own argument") from None
    return str(value)


def partition(argument: str, value: Any) -> TopicPartition:
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise invalid(argument, value, "(topic, partition)")
    return name(argument, value[0]), number(argument, value[1])


def partitions(argument: str, value: Any) -> list[TopicPartition]:
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise invalid(argument, value, "several (topic, partition) pairs")
    return [partition(argument, pair) for pair in value]


def offsets(argument: str, value: Any) -> dict[TopicPartition, int]:
    if not isinstance(value, Mapping):
        raise invalid(argument, value, "offsets by partition, such as {('orders', 0): 7}")
    return {partition(argument, key): offset(f"{argument}[{key!r}]", at) for key, at in value.items()}


def tree(argument: str, value: Any) -> Any:
    """Validate a coordination tree, or None."""
    if value is not None and not hasattr(value, "session_id"):
        raise invalid(argument, value, "a coordination tree, which provides ITree")
    return value


def names_of(constructor: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of the arguments of a constructor, for suggestions."""
    parameters = signature(constructor).parameters.values()
    return tuple(parameter.name for parameter in parameters if parameter.kind is not Parameter.VAR_KEYWORD)


def flag(argument: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise invalid(argument, value, "True or False")
    return value


def texts(argument: str, value: Any) -> list[str]:
    """Validate several texts; a single one would be taken for its characters."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise invalid(argument, value, "a list of texts")
    strings = list(value)
    for string in strings:
        if not isinstance(string, str):
            raise invalid(argument, string, "a text in each place")
    return strings


def texts_by_name(argument: str, value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise invalid(argument, value, "texts by name, such as {'name': 'text'}")
    for key, text in value.items():
        if not isinstance(key, str) or not isinstance(text, str):
            raise invalid(argument, key if isinstance(text, str) else text, "a text")
    return dict(value)


def path(argument: str, value: Any) -> str:
    directory = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(directory, str) or not directory:
        raise invalid(argument, value, "the path of a directory")
    return directory


def reactor_or_default(reactor: Any) -> Any:
    if reactor is None:
        from twisted.internet import reactor as default

        return default
    if not callable(getattr(reactor, "callLater", None)):
        raise invalid("reactor", reactor, "a reactor of Twisted")
    return reactor
