"""Replays a partition of an internal topic: later records replace earlier ones, tombstones remove them.

A replay changes only itself and its state, so it may run in any thread.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Generic, Protocol, TypeVar

import attrs

from pylogbroker.errors import CorruptRecords
from pylogbroker.records import LogEntry, Record

PROBLEMS_MAX: Final = 20
"""Problems of a partition that are logged: a log of a later release may have very many unknown records."""


class ReplayState(Protocol):
    def apply(self, record: Record, producer_id: int | None) -> None:
        """Apply a record, of a transaction if it has a `producer_id`. Raise CorruptRecords if it is unreadable."""

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        """Apply a marker."""


S = TypeVar("S", bound=ReplayState)


@attrs.define(eq=False, repr=False)
class PartitionReplay(Generic[S]):
    """`problems` are sentences about the first of the `skipped` records and batches."""

    partition: int
    leader_epoch: int
    state: S
    problems: list[str] = attrs.field(factory=list, init=False)
    skipped: int = attrs.field(default=0, init=False)

    def replay(self, entries: Iterable[LogEntry]) -> None:
        for entry in entries:
            try:
                self._replay_entry(entry)
            except CorruptRecords as problem:
                self._skip(f"entry at offset {entry.base_offset}: {problem.detail}")

    def _replay_entry(self, entry: LogEntry) -> None:
        entry.check()
        if entry.is_control:
            marker = entry.marker
            if marker is not None:
                self.state.end_transaction(entry.producer_id, marker.committed)
            return
        producer_id = entry.producer_id if entry.is_transactional else None
        for record in entry.records():
            try:
                self.state.apply(record, producer_id)
            except CorruptRecords as problem:
                self._skip(f"offset {record.offset}: {problem.detail}")

    def _skip(self, problem: str) -> None:
        self.skipped += 1
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append(problem)
