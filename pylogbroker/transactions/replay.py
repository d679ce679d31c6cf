"""Reading a partition of `__transaction_state` back: later records replace earlier ones, tombstones remove them.

A `TransactionReplay` touches nothing but itself while it replays, so that may be done in another thread.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from pylogbroker.errors import CorruptRecords
from pylogbroker.records import LogEntry, Record
from pylogbroker.transactions import record_schema
from pylogbroker.transactions.metadata import TransactionMetadata


@attrs.define(eq=False)
class TransactionReplay:
    """What has been replayed of one partition so far. `problems` tells of records that were passed over."""

    partition: int
    coordinator_epoch: int
    problems: list[str] = attrs.field(factory=list, init=False)
    replayed: dict[str, TransactionMetadata] = attrs.field(factory=dict, init=False)

    def replay(self, entries: Iterable[LogEntry]) -> None:
        """Take in the entries of the log that follow those taken in before."""
        for entry in entries:
            try:
                self._replay_entry(entry)
            except CorruptRecords as problem:
                self.problems.append(f"entry at offset {entry.base_offset}: {problem.detail}")

    def _replay_entry(self, entry: LogEntry) -> None:
        entry.check()
        if not entry.is_control:
            for record in entry.records():
                try:
                    self._replay(record)
                except CorruptRecords as problem:
                    self.problems.append(f"offset {record.offset}: {problem.detail}")

    def _replay(self, record: Record) -> None:
        transactional_id = None if record.key is None else record_schema.decode_key(record.key)
        if transactional_id is None:
            raise CorruptRecords("the key is not of a known version")
        if record.value is None:
            self.replayed.pop(transactional_id, None)
        else:
            self.replayed[transactional_id] = record_schema.decode_value(record.value)
