"""States of a group and of its members.

A group has an epoch, which each change of members, subscriptions or topics bumps. The target assignment is computed for
an epoch of the group. A member has the epoch of the target that it has reached.

    group          condition, the first that holds
    -----------    ------------------------------------------------------------
    Dead           it was deleted, or its shard is unloaded
    Empty          it has no members
    Assigning      the target assignment is older than the group's epoch
    Reconciling    a member is not STABLE at the epoch of the target assignment
    Stable         all members are

A member's assignment moves towards its target in steps, one at each of its heartbeats (`reconciliation`):

    state                    assignment                            waits for                     epoch
    ---------------------    ----------------------------------    --------------------------    -------------
    STABLE                   its whole target                      a newer target                the target's
    UNREVOKED_PARTITIONS     without the partitions to revoke      its client to revoke them     an older one
    UNRELEASED_PARTITIONS    the part of its target that is free   other members to revoke       the target's

A step, where `kept` is assigned and in the target, `revoked` is assigned but not in the target, and `free` is in the
target and held by no other member:

    condition                                                next state               assignment
    -----------------------------------------------------    ---------------------    -----------
    the client still owns some of `revoked`, or does not     UNREVOKED_PARTITIONS     kept
    say what it owns
    else: another member holds some of the target            UNRELEASED_PARTITIONS    kept, free
    else                                                     STABLE                   kept, free

A partition is held by the member to which it is assigned, or which has to revoke it: by one member at most.

A member's heartbeat, by the epoch that it sends; E is the member's epoch, P its previous one:

    epoch    of a member                                                     of nobody
    -----    ------------------------------------------------------------    --------------------
    0        joins again if P is 0: the answer was lost; else FENCED         joins
    E        goes on                                                         UNKNOWN_MEMBER_ID
    P        goes on if it owns only what is assigned: the answer was lost    UNKNOWN_MEMBER_ID
    other    FENCED_MEMBER_EPOCH                                             UNKNOWN_MEMBER_ID
    -1       leaves                                                          UNKNOWN_MEMBER_ID
    -2       static members: leaves, and keeps its place for its session     UNKNOWN_MEMBER_ID
"""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Final

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2


class ConsumerGroupState(Enum):
    """The value is the name in ConsumerGroupDescribe and ListGroups."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class ReconciliationState(IntEnum):
    """The number is that of the stored state."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
