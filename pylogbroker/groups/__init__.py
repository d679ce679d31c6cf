"""Consumer groups and their offsets: Kafka's group coordinator, without I/O.

A driver uses it so:

    coordinator = GroupCoordinator(GroupSettings(), log_port)
    replay = coordinator.runtime.load(partition, leader_epoch, now_ms)      # a partition of __consumer_offsets
    replay.replay(entries)
    await coordinator.runtime.activate(replay, now_ms)
    coordinator.join(Join(...), reply, now_ms)                              # reply(JoinResult(...)), now or later
    await coordinator.runtime.tick(now_ms)                                  # at runtime.next_deadline()
"""

from pylogbroker.groups.classic.rebalance import NewGeneration
from pylogbroker.groups.classic.states import GroupState
from pylogbroker.groups.coordinator import GroupCoordinator
from pylogbroker.groups.replay import ReplayedGroups
from pylogbroker.groups.requests import (
    Commit,
    CommitResult,
    CommittedOffset,
    DeleteOffsetsResult,
    FetchResult,
    GroupDescription,
    GroupOverview,
    GroupType,
    Heartbeat,
    Join,
    JoinedMember,
    JoinResult,
    LeaveResult,
    Leaving,
    MemberDescription,
    Sync,
    SyncResult,
    TransactionalCommit,
)
from pylogbroker.groups.settings import GroupSettings

__all__ = [
    "Commit",
    "CommitResult",
    "CommittedOffset",
    "DeleteOffsetsResult",
    "FetchResult",
    "GroupCoordinator",
    "GroupDescription",
    "GroupOverview",
    "GroupSettings",
    "GroupState",
    "GroupType",
    "Heartbeat",
    "Join",
    "JoinResult",
    "JoinedMember",
    "LeaveResult",
    "Leaving",
    "MemberDescription",
    "NewGeneration",
    "ReplayedGroups",
    "Sync",
    "SyncResult",
    "TransactionalCommit",
]
