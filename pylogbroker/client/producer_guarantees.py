"""Guarantees that settings of a producer ask for: acknowledgements, idempotence and order.

Raise ConfigError if settings contradict each other.
"""

from __future__ import annotations

from typing import Final

from pylogbroker.config import Values
from pylogbroker.errors import ConfigError

ACKS_ALL: Final = -1
_IN_FLIGHT_MAX: Final = 5  # batches per producer and partition that a broker remembers
_ACKS: Final = {"all": ACKS_ALL, "-1": ACKS_ALL, "0": 0, "1": 1}


def acks_of(settings: Values) -> int:
    return _ACKS[settings.text("acks")]


def is_idempotent(settings: Values) -> bool:
    """Return enable.idempotence; unless it is set, acks=all and transactions imply it."""
    idempotence, transactional = settings["enable.idempotence"], settings["transactional.id"]
    has_all = acks_of(settings) == ACKS_ALL
    if idempotence is None and transactional is None:
        return has_all
    if transactional is not None and idempotence is False:
        raise ConfigError("enable.idempotence: false is not accepted; transactions (transactional.id) need it")
    if (idempotence or transactional is not None) and not has_all:
        why = "enable.idempotence" if idempotence else "transactional.id"
        raise ConfigError(f"acks: {settings.text('acks')!r} is not accepted; {why} needs all")
    return idempotence is not False


def in_flight_max(settings: Values) -> int:
    """Return the maximum of requests in flight per connection; only idempotence keeps the order of several."""
    name = "max.in.flight.requests.per.connection"
    idempotent = is_idempotent(settings)
    if settings[name] is None:
        return _IN_FLIGHT_MAX if idempotent else 1
    maximum = settings.integer(name)
    if idempotent and maximum > _IN_FLIGHT_MAX:
        raise ConfigError(f"{name}: {maximum} is not accepted; enable.idempotence allows at most {_IN_FLIGHT_MAX}")
    return maximum
