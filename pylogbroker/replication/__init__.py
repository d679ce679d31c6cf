"""Replicas of a partition as state machines, without I/O, clock or Twisted.

    replica                  role of one broker's replica: leader, follower, or none
    leader                   one leader epoch of a leader
    follower                 one leader epoch of a follower
    follower_fetch           a follower's request to its leader
    isr, progress            parts of the leader
    preferred_read_replica   choice of a replica for a consumer
    actions                  what the state machines want to be done
    log, settings            what they read

Events are calls, and each returns actions. `tests/replication` runs several replicas as a cluster, with faults.
"""

from typing import TYPE_CHECKING

from pylogbroker.lazy_names import lazy_names

if TYPE_CHECKING:
    from pylogbroker.replication.actions import (
        Action,
        Actions,
        AdvanceHighWatermark,
        AdvanceLogStart,
        AlterIsr,
        AppendFetched,
        AssignEpoch,
        IsrChange,
        RestartAt,
        RestoreAt,
        TruncateTo,
    )
    from pylogbroker.replication.follower import (
        FetchedData,
        FetchFrom,
        FindEpochEnd,
        FollowerReplica,
        FollowerRequest,
        FollowerState,
        LeaderOffset,
        ListOffset,
    )
    from pylogbroker.replication.follower_fetch import FollowerFetch
    from pylogbroker.replication.leader import FetchOutcome, LeaderReplica
    from pylogbroker.replication.log import EpochEnd, ReplicaLog
    from pylogbroker.replication.replica import PartitionReplica
    from pylogbroker.replication.settings import ReplicationSettings

__all__ = [
    "Action",
    "Actions",
    "AdvanceHighWatermark",
    "AdvanceLogStart",
    "AlterIsr",
    "AppendFetched",
    "AssignEpoch",
    "EpochEnd",
    "FetchFrom",
    "FetchOutcome",
    "FetchedData",
    "FindEpochEnd",
    "FollowerFetch",
    "FollowerReplica",
    "FollowerRequest",
    "FollowerState",
    "IsrChange",
    "LeaderOffset",
    "LeaderReplica",
    "ListOffset",
    "PartitionReplica",
    "ReplicaLog",
    "ReplicationSettings",
    "RestartAt",
    "RestoreAt",
    "TruncateTo",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Action": ".actions",
        "Actions": ".actions",
        "AdvanceHighWatermark": ".actions",
        "AdvanceLogStart": ".actions",
        "AlterIsr": ".actions",
        "AppendFetched": ".actions",
        "AssignEpoch": ".actions",
        "IsrChange": ".actions",
        "RestartAt": ".actions",
        "RestoreAt": ".actions",
        "TruncateTo": ".actions",
        "FetchedData": ".follower",
        "FetchFrom": ".follower",
        "FindEpochEnd": ".follower",
        "FollowerReplica": ".follower",
        "FollowerRequest": ".follower",
        "FollowerState": ".follower",
        "LeaderOffset": ".follower",
        "ListOffset": ".follower",
        "FetchOutcome": ".leader",
        "FollowerFetch": ".follower_fetch",
        "LeaderReplica": ".leader",
        "EpochEnd": ".log",
        "ReplicaLog": ".log",
        "PartitionReplica": ".replica",
        "ReplicationSettings": ".settings",
    },
)
