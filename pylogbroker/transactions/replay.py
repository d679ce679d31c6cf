"""Rebuilds transactional ids from the records of `__transaction_state`."""

from __future__ import annotations

import attrs

from pylogbroker.errors import CorruptRecords
from pylogbroker.records import Record
from pylogbroker.transactions import record_schema
from pylogbroker.transactions.metadata import TransactionMetadata


@attrs.define(eq=False)
class ReplayedTransactions:
    """The transactional ids of a partition, up to some record."""

    metadata: dict[str, TransactionMetadata] = attrs.field(factory=dict, init=False)

    def apply(self, record: Record, producer_id: int | None) -> None:
        transactional_id = None if record.key is None else record_schema.decode_key(record.key)
        if transactional_id is None:
            raise CorruptRecords("the key is not of a known version")
        if record.value is None:
            self.metadata.pop(transactional_id, None)
        else:
            self.metadata[transactional_id] = record_schema.decode_value(record.value)

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        """Do nothing: the records of this topic are not part of transactions."""
