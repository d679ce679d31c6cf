"""In-sync replicas of a partition, as its leader knows them: the committed ISR and at most one proposed change.

    committed   what the controller has stored, by the last PartitionState or answer
    pending     a change sent to the controller; it may be stored already
    maximal     committed and pending: no stored ISR of this leader epoch has other members (KIP-497)

The leader counts an added replica at once and a removed one until the controller confirms. Answers to AlterPartition:

    answer                                          effect
    ----------------------------------------------  ----------------------------------------------------------
    success                                         the answered ISR is committed
    INELIGIBLE_REPLICA, OPERATION_NOT_ATTEMPTED     the change was not stored: drop it
    FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION,    another state is stored: keep the change pending until it
    UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID,   comes
    NEW_LEADER_ELECTED, INVALID_REQUEST
    others, and no answer                           the outcome is unknown: send the change again
"""

from __future__ import annotations

from typing import Final

import attrs

from pylogbroker.errors import ErrorCode
from pylogbroker.replication.actions import IsrChange

_NOT_STORED: Final = frozenset((ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED))
_OUTDATED: Final = frozenset(
    (
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NEW_LEADER_ELECTED,
        ErrorCode.INVALID_REQUEST,
    )
)


@attrs.define(eq=False, repr=False)
class InSyncReplicas:
    committed: tuple[int, ...]
    partition_epoch: int
    pending: IsrChange | None = None
    maximal: tuple[int, ...] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.maximal = self.committed

    def propose(self, change: IsrChange) -> None:
        self.pending = change
        self.maximal = (*self.committed, *(replica for replica in change.isr if replica not in self.committed))

    def commit(self, isr: tuple[int, ...], partition_epoch: int) -> bool:
        """Take a newer stored ISR; return whether it is newer.

        The proposed change was stored before it, or will not be stored: its partition epoch is outdated.
        """
        if partition_epoch <= self.partition_epoch:
            return False
        self.committed = self.maximal = isr
        self.partition_epoch = partition_epoch
        self.pending = None
        return True

    def failed(self, change: IsrChange, error: ErrorCode) -> bool:
        """Handle an error answer; return whether to send the change again.

        An answer belongs to one proposal, not to an equal later one: that may be stored.
        """
        if change is not self.pending or error in _OUTDATED:
            return False
        if error in _NOT_STORED:
            self.pending = None
            self.maximal = self.committed
            return False
        return True
