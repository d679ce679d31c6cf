"""Transactions over partitions: Kafka's transaction coordinator, without I/O.

coordinator = TransactionCoordinator(TransactionSettings(), log_port, transaction_port)
replay = coordinator.runtime.load(partition, leader_epoch, now_ms)      # a partition of __transaction_state
replay.replay(entries)
coordinator.runtime.activate(replay, now_ms)
coordinator.init_producer_id(InitProducerId(...), reply, now_ms)        # reply(InitResult(...)), now or later
coordinator.runtime.tick(now_ms)                                        # at runtime.next_deadline()
"""

from pylogbroker.transactions.completion import TransactionTimeout
from pylogbroker.transactions.coordinator import TransactionCoordinator
from pylogbroker.transactions.ports import MarkersCallback, ProducerIdCallback, TransactionMarker, TransactionPort
from pylogbroker.transactions.requests import (
    InitProducerId,
    InitResult,
    TransactionDescription,
    TransactionList,
    TransactionOverview,
)
from pylogbroker.transactions.settings import TransactionSettings
from pylogbroker.transactions.states import TransactionState

__all__ = [
    "InitProducerId",
    "InitResult",
    "MarkersCallback",
    "ProducerIdCallback",
    "TransactionCoordinator",
    "TransactionDescription",
    "TransactionList",
    "TransactionMarker",
    "TransactionOverview",
    "TransactionPort",
    "TransactionSettings",
    "TransactionState",
    "TransactionTimeout",
]
