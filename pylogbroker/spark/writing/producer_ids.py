"""Producer ids."""

from __future__ import annotations

from typing import Final

import attrs

from pylogbroker.blocking.cluster import BlockingCluster
from pylogbroker.client.partition_queue import ProducerIdentity
from pylogbroker.client.producer_guarantees import is_idempotent
from pylogbroker.rpc.errors import raise_for
from pylogbroker.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_NO_TIMEOUT: Final = 0x7FFFFFFF


@attrs.frozen
class WriterIdentity(ProducerIdentity):
    transactional_id: str | None = None
    is_v2: bool = False
    """True in transactions v2: records and offsets add their partitions (KIP-890)."""


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
