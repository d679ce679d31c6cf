"""What programs give to the methods of clients, checked where it comes in: the error names the argument and the value.

Other errors would come later, from deep inside, or never.
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
    """The error for a value that an argument cannot have."""
    return ConfigError(f"{argument}: {value!r} is not accepted; expected {expected}")


def name(argument: str, value: Any) -> str:
    """The name of a topic or a group."""
    if not isinstance(value, str) or not value:
        raise refusal(argument, value, "a name")
    return value


def number(argument: str, value: Any, least: int = 0, most: int = _MOST_32) -> int:
    """A whole number."""
    try:
        found = index(value)
    except TypeError:
        found = None
    if found is None or not least <= found <= most:
        raise refusal(argument, value, f"a whole number from {least} to {most}")
    return found


def offset(argument: str, value: Any) -> int:
    """Where a message can be."""
    return number(argument, value, 0, _MOST_64)


def whole(argument: str, value: Any) -> int:
    """Any number: times and offsets below 0 stand for something, or are answered by the broker."""
    return number(argument, value, -_MOST_64, _MOST_64)


def seconds(argument: str, value: Any) -> float:
    """How long something may take."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise refusal(argument, value, "seconds, math.inf for ever")
    return float(value)


def host(argument: str, value: Any) -> str:
    """Where a broker is, without a port."""
    if ":" in name(argument, value):
        try:
            IPv6Address(value)
        except ValueError:
            raise refusal(argument, value, "a host alone; its port is an argument of its own") from None
    return str(value)


def partition(argument: str, value: Any) -> TopicPartition:
    """A topic and the number of a partition."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise refusal(argument, value, "(topic, partition)")
    return name(argument, value[0]), number(argument, value[1])


def partitions(argument: str, value: Any) -> list[TopicPartition]:
    """Several of these."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise refusal(argument, value, "several (topic, partition)")
    return [partition(argument, each) for each in value]


def offsets(argument: str, value: Any) -> dict[TopicPartition, int]:
    """Offsets to commit."""
    if not isinstance(value, Mapping):
        raise refusal(argument, value, "offsets by their partitions, {('orders', 0): 7}, say")
    return {partition(argument, key): offset(f"{argument}[{key!r}]", at) for key, at in value.items()}
