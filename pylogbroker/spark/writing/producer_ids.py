"""Producer ids, and settings of idempotence."""

from __future__ import annotations

from typing import Final

import attrs

from pylogbroker.client.partition_queue import ProducerIdentity
from pylogbroker.config import Values
from pylogbroker.errors import ConfigError
from pylogbroker.rpc.errors import raise_for
from pylogbroker.spark.brokers.cluster import BlockingCluster
from pylogbroker.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_WINDOW: Final = 5  # batches that a leader remembers per producer
_NO_TIMEOUT: Final = 0x7FFFFFFF


@attrs.frozen
class WriterIdentity(ProducerIdentity):
    transactional_id: str | None = None


def acks_of(settings: Values) -> int:
    """Required acknowledgements; -1 for all."""
    return -1 if settings.text("acks") == "all" else int(settings.text("acks"))


def is_idempotent(settings: Values) -> bool:
    if settings["enable.idempotence"] and acks_of(settings) != -1:
        raise ConfigError(f"option kafka.acks: {settings.text('acks')!r} is not accepted; enable.idempotence needs all")
    return acks_of(settings) == -1 if settings["enable.idempotence"] is None else bool(settings["enable.idempotence"])


def window_of(settings: Values) -> int:
    """Return the maximum requests in flight per connection; only idempotence keeps several in order."""
    name = "max.in.flight.requests.per.connection"
    if settings[name] is None:
        return _WINDOW if is_idempotent(settings) else 1
    asked = settings.integer(name)
    if is_idempotent(settings) and asked > _WINDOW:
        raise ConfigError(f"option kafka.{name}: {asked} is not accepted; enable.idempotence allows {_WINDOW} at most")
    return asked


def identify(cluster: BlockingCluster) -> WriterIdentity:
    """Get a producer id, if idempotent."""
    if not is_idempotent(cluster.settings):
        return WriterIdentity(-1, -1)

    def ask() -> WriterIdentity:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=_NO_TIMEOUT)
        response: InitProducerIdResponse = cluster.any_connection().ask(request)
        raise_for(response.error_code)
        return WriterIdentity(response.producer_id, response.producer_epoch)

    return cluster.retrying(ask)
