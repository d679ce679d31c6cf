"""Stores of what a follower of the metadata log has fetched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pylogbroker.records import LogEntry
from pylogbroker.wire.messages.fetch_snapshot import SnapshotName


class MetadataStore(Protocol):
    """Keeps what was fetched for a later start. Calls return at once, and their order is that of the changes."""

    def append(self, batches: Sequence[LogEntry]) -> None:
        """Keep batches that follow the last one."""

    def cut(self, offset: int) -> None:
        """Forget the batches from an offset on."""

    def clear(self, why: str) -> None:
        """Forget all: no leader has it."""

    def snapshot_part(self, name: SnapshotName, position: int, data: bytes) -> None:
        """Keep bytes of a snapshot that is on its way."""

    def replace(self, name: SnapshotName) -> None:
        """Let the snapshot whose parts came take the place of all before."""

    def follow_leader(self, leader_id: int, epoch: int) -> None:
        """Keep the newest leader, -1 for an unknown one, and its epoch."""


class NoStore:
    """Keeps nothing."""

    def append(self, batches: Sequence[LogEntry]) -> None: ...

    def cut(self, offset: int) -> None: ...

    def clear(self, why: str) -> None: ...

    def snapshot_part(self, name: SnapshotName, position: int, data: bytes) -> None: ...

    def replace(self, name: SnapshotName) -> None: ...

    def follow_leader(self, leader_id: int, epoch: int) -> None: ...
