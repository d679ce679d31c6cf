"""Transactions over partitions: Kafka's transaction coordinator, without I/O.

    coordinator = TransactionCoordinator(TransactionSettings(), log_port, transaction_port)

Its use is like that of the coordinator in `pylogbroker.groups`.
"""

from pylogbroker.transactions.completion import TransactionTimeout
from pylogbroker.transactions.coordinator import TransactionCoordinator
from pylogbroker.transactions.ports import MarkersCallback, ProducerIdCallback, TransactionMarker, TransactionPort
from pylogbroker.transactions.requests import (
    EndResult,
    EndTransaction,
    InitProducerId,
    InitResult,
    TransactionDescription,
    TransactionList,
    TransactionOverview,
)
from pylogbroker.transactions.settings import TransactionSettings
from pylogbroker.transactions.states import TransactionState

__all__ = [
    "EndResult",
    "EndTransaction",
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
