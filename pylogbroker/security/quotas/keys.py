"""Names of quotas, the entities that may have them, and their valid values."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from ipaddress import ip_address
from typing import Final

import attrs

from pylogbroker.java.text import parse_double, render_double


class QuotaKey(StrEnum):
    """Quotas of users and client ids; the last one is of addresses."""

    PRODUCER_BYTE_RATE = "producer_byte_rate"
    CONSUMER_BYTE_RATE = "consumer_byte_rate"
    REQUEST_PERCENTAGE = "request_percentage"
    CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
    CONNECTION_CREATION_RATE = "connection_creation_rate"


@attrs.frozen
class _Whole:
    """Kind of a quota without fractions, up to `most`."""

    name: str
    most: int


_INT32: Final = _Whole("an INT", 2**31 - 1)
_INT64: Final = _Whole("a LONG", 2**63 - 1)
_WHOLE: Final[Mapping[QuotaKey, _Whole]] = {
    QuotaKey.PRODUCER_BYTE_RATE: _INT64,
    QuotaKey.CONSUMER_BYTE_RATE: _INT64,
    QuotaKey.CONNECTION_CREATION_RATE: _INT32,
}
IP_KEYS: Final = frozenset({QuotaKey.CONNECTION_CREATION_RATE})
CLIENT_KEYS: Final = frozenset(QuotaKey) - IP_KEYS


class BadQuota(ValueError):
    """A quota is not valid; the message is Kafka's."""


def check(key: str, value: float, of_ip: bool) -> QuotaKey:
    """Return the key of a quota; raise BadQuota for one that entities of its kind do not have, or a wrong value."""
    if key not in (IP_KEYS if of_ip else CLIENT_KEYS):
        raise BadQuota(f"Invalid configuration key {key}")
    if not value > 0:
        raise BadQuota(f"Quota {key} must be greater than 0")
    quota_key = QuotaKey(key)
    whole = _WHOLE.get(quota_key)
    if whole is not None:
        if value > whole.most:
            raise BadQuota(f"Proposed value for {key} is too large for {whole.name}.")
        if value % 1:
            raise BadQuota(f"{key} cannot be a fractional value.")
    return quota_key


def encode(key: QuotaKey, value: float) -> str:
    """Return a value as text."""
    return str(int(value)) if key in _WHOLE else render_double(value)


def decode(text: str) -> float:
    """Return a stored value; raise ValueError."""
    value = parse_double(text)
    if not value > 0:
        raise ValueError(f"{text!r} is no quota")
    return value


def parse_ip(text: str) -> str | None:
    """Return an address in one form for all its spellings; None if it is none."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return str(getattr(address, "ipv4_mapped", None) or address)
