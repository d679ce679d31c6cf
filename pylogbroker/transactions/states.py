"""The states of a transactional id and their transitions.

               partitions are added            EndTxn(commit)                  all markers are written
    Empty ---------------------------> Ongoing --------------> PrepareCommit -------------------------> CompleteCommit
      ^                                |  | ^ ^                                                           |     |
      |              EndTxn(abort), or |  | | |                                                           |     |
      |  PrepareEpochFence (below)     |  +-+ +---- partitions are added ---------------------------------+     |
      |                                v                          ^                                             |
      |                           PrepareAbort ----------> CompleteAbort                                        |
      |                                    all markers are written |                                            |
      +------------------------------------------------------------+---- InitProducerId ------------------------+

    Empty, CompleteCommit, CompleteAbort -- not used for transactional.id.expiration.ms --> Dead
    Ongoing -- InitProducerId, or the transaction's timeout --> PrepareEpochFence --> PrepareAbort with the epoch + 1

    Empty, CompleteCommit, CompleteAbort -- EndTxn 5 (abort, without partitions) --> PrepareAbort

Every arrow is a record in `__transaction_state`; until it is stored, the next state is `pending` and requests get no
response. PrepareEpochFence is never stored: it is one step with PrepareAbort. Markers follow a stored Prepare*.

The response to a producer with the present id and epoch:

    request          pending     Empty              Ongoing                  Prepare*     Complete*
    ---------------  ----------  -----------------  -----------------------  -----------  -----------------
    InitProducerId   CONCURRENT  NONE, next epoch   CONCURRENT, and aborted  CONCURRENT   NONE, next epoch
    AddPartitions    CONCURRENT* NONE               NONE                     CONCURRENT   NONE
    EndTxn 0 to 4    CONCURRENT  INVALID_TXN_STATE  NONE                     CONCURRENT   NONE if it was so ended,
                                                                                          else INVALID_TXN_STATE

CONCURRENT stands for CONCURRENT_TRANSACTIONS; a Prepare* always has its completion pending. (*) Partitions wait for
others that are being added (`additions`). `epoch_bump` has the answers to EndTxn 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum


class TransactionState(IntEnum):
    """The value is the number in the log; `label` is the name in descriptions."""

    label: str

    def __new__(cls, number: int, label: str) -> TransactionState:
        member = int.__new__(cls, number)
        member._value_ = number
        member.label = label
        return member

    EMPTY = 0, "Empty"
    ONGOING = 1, "Ongoing"
    PREPARE_COMMIT = 2, "PrepareCommit"
    PREPARE_ABORT = 3, "PrepareAbort"
    COMPLETE_COMMIT = 4, "CompleteCommit"
    COMPLETE_ABORT = 5, "CompleteAbort"
    DEAD = 6, "Dead"
    PREPARE_EPOCH_FENCE = 7, "PrepareEpochFence"


BY_LABEL: Mapping[str, TransactionState] = {state.label: state for state in TransactionState}

IDLE = frozenset({TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})

PREPARED = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})

PREDECESSORS: Mapping[TransactionState, frozenset[TransactionState]] = {
    TransactionState.EMPTY: IDLE,
    TransactionState.ONGOING: IDLE | {TransactionState.ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
    TransactionState.PREPARE_ABORT: IDLE | {TransactionState.ONGOING, TransactionState.PREPARE_EPOCH_FENCE},
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
    TransactionState.DEAD: IDLE,
    TransactionState.PREPARE_EPOCH_FENCE: frozenset({TransactionState.ONGOING}),
}
"""Predecessors of each state."""
