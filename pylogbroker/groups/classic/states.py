"""The states of a group, and which may follow which.

              a member joins                      all have joined, or the time is up
    Empty ---------------------> PreparingRebalance -----------------------------> CompletingRebalance
      ^                            |     ^     ^                                     |          |
      |      nobody is left        |     |     |   a member joins, leaves or dies    |          | the leader's
      +----------------------------+     |     +-------------------------------------+          | assignment
                                         |                                                      | is stored
                                         |   a member joins, leaves or dies,                    v
                                         +-- or the leader joins again -------------------- Stable

    Empty -- deleted, or nothing is left to remember --> Dead
    any   -- its partition is given up ----------------> Dead

What a member is answered, once it has shown that it is one:

    request       PreparingRebalance      CompletingRebalance              Stable
    ------------  ----------------------  -------------------------------  --------------------------------------
    JoinGroup     waits for the others    unchanged: this generation,      unchanged follower: this generation,
                                          else a new rebalance             else (and for the leader) a new rebalance
    SyncGroup     REBALANCE_IN_PROGRESS   waits for the leader's           its assignment
    Heartbeat     REBALANCE_IN_PROGRESS   NONE                             NONE
    LeaveGroup    NONE                    NONE, a new rebalance            NONE, a new rebalance
    OffsetCommit  stored                  REBALANCE_IN_PROGRESS            stored

An Empty group takes joins, and commits of consumers that do without membership (generation -1); whoever claims to be
a member is UNKNOWN_MEMBER_ID. A Dead group is no longer found: its last holders get COORDINATOR_NOT_AVAILABLE.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class GroupState(Enum):
    """A group's state; the value is its name in DescribeGroups and ListGroups."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_LIVING = frozenset({GroupState.EMPTY, GroupState.PREPARING, GroupState.COMPLETING, GroupState.STABLE})

PREDECESSORS: Mapping[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING}),
    GroupState.PREPARING: frozenset({GroupState.EMPTY, GroupState.COMPLETING, GroupState.STABLE}),
    GroupState.COMPLETING: frozenset({GroupState.PREPARING}),
    GroupState.STABLE: frozenset({GroupState.COMPLETING}),
    GroupState.DEAD: _LIVING,
}
"""The states that each state may follow."""
