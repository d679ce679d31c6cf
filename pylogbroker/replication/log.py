"""Log of a replica, as far as its state machine reads it."""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

UNKNOWN_OFFSET: Final = -1
UNKNOWN_EPOCH: Final = -1


class EpochEnd(NamedTuple):
    """Leader epoch and the offset at which it ended; -1 for unknown ones."""

    epoch: int
    end_offset: int


class ReplicaLog(Protocol):
    """Offsets and leader epochs of one log. The state machines read it; their actions change it.

    A truncation to an offset, also to the log end, drops the leader epochs that begin there or later.
    A truncation to an offset before the log start leaves an empty log that begins there.
    """

    @property
    def log_start_offset(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...

    @property
    def synced_offset(self) -> int:
        """Offset below which records count as written.

        Usually the log end; with `flush.messages` the end of what is on the disk.
        """

    @property
    def latest_epoch(self) -> int:
        """Leader epoch of the last record, or a later one that began at the log end; -1 without records of v2."""

    @property
    def has_only_archive(self) -> bool:
        """True if the log is archived, and has no local records."""

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the largest known epoch up to `epoch`, and its end offset; (-1, -1) if unknown."""
