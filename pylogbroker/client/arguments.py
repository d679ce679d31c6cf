"""Validation of the arguments of client methods; each error names the argument and the value.

Without it, errors would occur later and far from their cause, or never.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import IPv6Address
from numbers import Real
from operator import index
from typing import Any, Final

from pylogbroker.errors import ConfigError
from pylogbroker.interfaces import TopicPartition

_MOST_32: Final = (1 << 31) - 1
_MOST_64: Final = (1 << 63) - 1


def refusal(argument: str, value: object, expected: str) -> ConfigError:
    """Return the error for an invalid argument."""
    return ConfigError(f"{argument}: {value!r} is not accepted; expected {expected}")


def name(argument: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise refusal(argument, value, "a name")
    return value


def number(argument: str, value: Any, least: int = 0, most: int = _MOST_32) -> int:
    try:
        found = index(value)
    except TypeError:
        found = None
    if found is None or not least <= found <= most:
        raise refusal(argument, value, f"a whole number from {least} to {most}")
    return found


def offset(argument: str, value: Any) -> int:
    return number(argument, value, 0, _MOST_64)


def whole(argument: str, value: Any) -> int:
    """Validate any 64-bit number: negative times and offsets have a meaning, or the broker rejects them."""
    return number(argument, value, -_MOST_64, _MOST_64)


def seconds(argument: str, value: Any) -> float:
    if not isinstance(value, Real) or isinstance(value, bool):
        raise refusal(argument, value, "a number of seconds; math.inf means no limit")
    return float(value)


def host(argument: str, value: Any) -> str:
    """Validate the host of a broker, without a port."""
    if ":" in name(argument, value):
        try:
            IPv6Address(value)
        except ValueError:
            raise refusal(argument, value, "a host without a port; pass the port as its own argument") from None
    return str(value)


def partition(argument: str, value: Any) -> TopicPartition:
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise refusal(argument, value, "(topic, partition)")
    return name(argument, value[0]), number(argument, value[1])


def partitions(argument: str, value: Any) -> list[TopicPartition]:
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise refusal(argument, value, "several (topic, partition) pairs")
    return [partition(argument, each) for each in value]


def offsets(argument: str, value: Any) -> dict[TopicPartition, int]:
    if not isinstance(value, Mapping):
        raise refusal(argument, value, "offsets by partition, such as {('orders', 0): 7}")
    return {partition(argument, key): offset(f"{argument}[{key!r}]", at) for key, at in value.items()}
