"""States of a group of Kafka Streams and of its members.

The epochs of a group and its members are those of KIP-848 (`groups.consumer.states`).

    group          condition, the first that holds
    -----------    --------------------------------------------------------------------
    Dead           it was deleted, or its shard is unloaded
    Empty          it has no members
    NotReady       topics of the topology are missing, or have the wrong number of partitions; members have no tasks
    Assigning      the target assignment is older than the group's epoch
    Reconciling    a member is not STABLE at the epoch of the target assignment
    Stable         all members are

A member moves towards its target in steps, one at each of its heartbeats (`reconciliation`):

    state               tasks                                 waits for                     epoch
    ----------------    ----------------------------------    --------------------------    -------------
    STABLE              its whole target                      a newer target                the target's
    UNREVOKED_TASKS     without the tasks to revoke           its client to revoke them     an older one
    UNRELEASED_TASKS    the part of its target that is free   other members to revoke       the target's

    role of a task       is free for a member if no other member
    -----------------    ------------------------------------------------------------------------------------
    active               has it as active, or has it in another role in the same process
    standby, warm-up     of the same process has it in any role: processes of Streams share a state directory

A member has a task that it has to revoke, too.
"""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Final

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2
FIRST_EPOCH: Final = 2
"""Epoch of a new group. Members that join before the first assignment have epoch 1."""
UNASSIGNED_EPOCH: Final = 1


class StreamsGroupState(Enum):
    """The value is the name in StreamsGroupDescribe and ListGroups."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class TaskState(IntEnum):
    """State of a member; the number is that of the stored state."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3


class StatusCode(IntEnum):
    """Conditions of a group that its members hear of in answers to heartbeats."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5
    MISSING_CLIENT_TAGS = 6
