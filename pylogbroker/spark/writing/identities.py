"""Who a producer is, and what its settings promise: leaders recognize what comes again by its id, epoch and numbers."""

from __future__ import annotations

from typing import Final

import attrs

from pylogbroker.client.errors import raise_for
from pylogbroker.config import Values
from pylogbroker.errors import ConfigError
from pylogbroker.spark.brokers.cluster import Cluster
from pylogbroker.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_WINDOW: Final = 5  # batches of a producer that a leader recognizes when they come again
_NO_TIMEOUT: Final = 0x7FFFFFFF


@attrs.frozen
class Identity:
    """Who a producer is: its id and epoch, and the name that its transactions have, if it has any."""

    id: int = -1
    epoch: int = -1
    transactional_id: str | None = None


def acks_of(settings: Values) -> int:
    """How many must have a batch; -1 for all."""
    return -1 if settings.text("acks") == "all" else int(settings.text("acks"))


def is_idempotent(settings: Values) -> bool:
    """Whether leaders are to recognize what comes again: as it is set, or else if all must have it."""
    if settings["enable.idempotence"] and acks_of(settings) != -1:
        raise ConfigError(f"option kafka.acks: {settings.text('acks')!r} is not accepted; enable.idempotence needs all")
    return acks_of(settings) == -1 if settings["enable.idempotence"] is None else bool(settings["enable.idempotence"])


def window_of(settings: Values) -> int:
    """How many requests a leader may have to answer: with several, only idempotence keeps the order."""
    name = "max.in.flight.requests.per.connection"
    if settings[name] is None:
        return _WINDOW if is_idempotent(settings) else 1
    asked = settings.integer(name)
    if is_idempotent(settings) and asked > _WINDOW:
        raise ConfigError(f"option kafka.{name}: {asked} is not accepted; enable.idempotence allows {_WINDOW} at most")
    return asked


def identify(cluster: Cluster) -> Identity:
    """Who a producer without transactions is; without idempotence, nobody."""
    if not is_idempotent(cluster.settings):
        return Identity()

    def ask() -> Identity:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=_NO_TIMEOUT)
        response: InitProducerIdResponse = cluster.any_connection().ask(request)
        raise_for(response.error_code)
        return Identity(response.producer_id, response.producer_epoch)

    return cluster.retrying(ask)
