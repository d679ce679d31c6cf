"""Transactions over partitions: Kafka's transaction coordinator as a state machine that does no I/O.

    coordinator = TransactionCoordinator(TransactionSettings(), store)      # where records and markers go
    coordinator.load(partition, entries, now_ms)                            # once per partition of __transaction_state
    coordinator.init_producer_id(InitProducerId(...), reply, now_ms)        # reply(InitResult(...)), now or later
    coordinator.tick(now_ms)                                                # whenever next_deadline() has come

`states` draws what a transactional id goes through, `layout` the bytes of its records. `metadata` holds what every step
makes of it, `initialization`, `ending` and `expiration` the rules of when; `store` is the seam to the logs.
"""

from pylogbroker.transactions.coordinator import TransactionCoordinator
from pylogbroker.transactions.log_port import (
    AppendCallback,
    MarkersWritten,
    ProducerIdTaken,
    TransactionLogPort,
    TransactionMarker,
    TransactionTimeout,
)
from pylogbroker.transactions.replay import TransactionReplay
from pylogbroker.transactions.requests import (
    InitProducerId,
    InitResult,
    Reply,
    TopicPartition,
    TransactionDescription,
    TransactionList,
    TransactionOverview,
)
from pylogbroker.transactions.settings import TransactionSettings
from pylogbroker.transactions.states import TransactionState

__all__ = [
    "AppendCallback",
    "InitProducerId",
    "InitResult",
    "MarkersWritten",
    "ProducerIdTaken",
    "Reply",
    "TopicPartition",
    "TransactionCoordinator",
    "TransactionDescription",
    "TransactionList",
    "TransactionLogPort",
    "TransactionMarker",
    "TransactionOverview",
    "TransactionReplay",
    "TransactionSettings",
    "TransactionState",
    "TransactionTimeout",
]
