"""Validation of client methods' arguments; each error names the argument and the value.

Without it, errors would occur far from their cause, or never.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import IPv6Address
from numbers import Real
from operator import index
from typing import Any, Final

from pylogbroker.errors import ConfigError
from pylogbroker.interfaces import TopicPartition

_INT32_MAX: Final = (1 << 31) - 1
_INT64_MAX: Final = (1 << 63) - 1


def invalid(argument: str, value: object, expected: str) -> ConfigError:
    return ConfigError(f"{argument}: {value!r} is not accepted; expected {expected}")


def name(argument: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise invalid(argument, value, "a name")
    return value


def number(argument: str, value: Any, minimum: int = 0, maximum: int = _INT32_MAX) -> int:
    try:
        found = index(value)
    except TypeError:
        found = None
    if found is None or not minimum <= found <= maximum:
        raise invalid(argument, value, f"a whole number from {minimum} to {maximum}")
    return found


def offset(argument: str, value: Any) -> int:
    return number(argument, value, 0, _INT64_MAX)


def whole(argument: str, value: Any) -> int:
    """Validate a signed 64-bit number."""
    return number(argument, value, -_INT64_MAX, _INT64_MAX)


def seconds(argument: str, value: Any) -> float:
    if not isinstance(value, Real) or isinstance(value, bool):
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
    return [partition(argument, each) for each in value]


def offsets(argument: str, value: Any) -> dict[TopicPartition, int]:
    if not isinstance(value, Mapping):
        raise invalid(argument, value, "offsets by partition, such as {('orders', 0): 7}")
    return {partition(argument, key): offset(f"{argument}[{key!r}]", at) for key, at in value.items()}


def reactor_or_default(reactor: Any) -> Any:
    if reactor is None:
        from twisted.internet import reactor as default

        return default
    return reactor
