"""Actions: the state machines of replicas return them, to be done in this order before the next event.

    action                 how it is carried out
    ---------------------  --------------------------------------------------------------
    AssignEpoch            `Log.assign_epoch`
    AdvanceHighWatermark   set `Log.high_watermark`; complete operations that wait for it
    AdvanceLogStart        delete records before the offset
    AlterIsr               send AlterPartition to the controller; report the answer
    AppendFetched          append the records of the fetch answer; report it
    TruncateTo, RestartAt  cut the log; report it
    RestoreAt              begin again with the state of the archive at an offset; report it

All are values: a test compares them.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import attrs


@attrs.frozen
class IsrChange:
    """Proposal of a leader to the controller: the fields of AlterPartition."""

    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    broker_epochs: tuple[int, ...]
    """Of the members of `isr`, as their fetches carried them; -1 is unknown, or the leader's."""


@attrs.frozen
class AssignEpoch:
    """Begin a leader epoch at the log end, also without a record."""

    epoch: int


@attrs.frozen
class AdvanceHighWatermark:
    offset: int


@attrs.frozen
class AdvanceLogStart:
    offset: int


@attrs.frozen
class AlterIsr:
    change: IsrChange
    delay_ms: int = 0


@attrs.frozen
class AppendFetched:
    """Append the records of the answer that was just handled."""


@attrs.frozen
class TruncateTo:
    """Drop records from `offset` on, and the leader epochs that begin there or later."""

    offset: int


@attrs.frozen
class RestartAt:
    """Drop all records; the next one gets `offset`."""

    offset: int


@attrs.frozen
class RestoreAt:
    """Drop all local records; the next one gets `offset`, and the archive has those before (KIP-405)."""

    offset: int


Action: TypeAlias = (
    AssignEpoch | AdvanceHighWatermark | AdvanceLogStart | AlterIsr | AppendFetched | TruncateTo | RestartAt | RestoreAt
)
Actions: TypeAlias = tuple[Action, ...]
NO_ACTIONS: Final[Actions] = ()
