"""The states of a group and their transitions.

              a member joins                      all have joined, or the time is up
    Empty ---------------------> PreparingRebalance -----------------------------> CompletingRebalance
      ^                            |     ^     ^                                     |          |
      |      nobody is left        |     |     |   a member joins, leaves or dies    |          | the leader's
      +----------------------------+     |     +-------------------------------------+          | assignment
                                         |                                                      | is stored
                                         |   a member joins, leaves or dies,                    v
                                         +-- or the leader joins again -------------------- Stable

    Empty -- deleted, or its last offset expired --> Dead
    any   -- its shard is unloaded ----------------> Dead

The response to a member of the group:

    request       PreparingRebalance      CompletingRebalance              Stable
    ------------  ----------------------  -------------------------------  --------------------------------------
    JoinGroup     waits for the others    unchanged: this generation,      unchanged follower: this generation,
                                          else a new rebalance             else (and for the leader) a new rebalance
    SyncGroup     REBALANCE_IN_PROGRESS   waits for the leader's           its assignment
    Heartbeat     REBALANCE_IN_PROGRESS   NONE                             NONE
    LeaveGroup    NONE                    NONE, a new rebalance            NONE, a new rebalance
    OffsetCommit  stored                  REBALANCE_IN_PROGRESS            stored

An Empty group accepts joins, and commits without membership (generation -1); members get UNKNOWN_MEMBER_ID.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class GroupState(Enum):
    """The value is the name in DescribeGroups and ListGroups."""

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
"""Predecessors of each state."""
