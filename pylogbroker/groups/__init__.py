"""Consumer groups and their offsets: Kafka's classic group protocol as a state machine that does no I/O.

    coordinator = GroupCoordinator(GroupSettings(), store)      # where the records go
    coordinator.load(partition, entries, now_ms)                # once per partition of __consumer_offsets
    coordinator.join(Join(...), reply, now_ms)                  # reply(JoinResult(...)), now or later
    coordinator.tick(now_ms)                                    # whenever coordinator.next_deadline() has come

`states` draws what a group goes through, `layout` the bytes of its records. `membership`, `rebalance` and `commits`
hold the rules; `group`, `member` and `offsets` hold what is remembered.
"""

from pylogbroker.groups.classic.rebalance import NewGeneration
from pylogbroker.groups.classic.states import GroupState
from pylogbroker.groups.coordinator import GROUP_TYPE, GroupCoordinator
from pylogbroker.groups.log_port import AppendCallback, GroupLogPort, ProducerIdAndEpoch
from pylogbroker.groups.replay import GroupReplay
from pylogbroker.groups.requests import (
    Commit,
    CommitResult,
    CommittedOffset,
    DeleteOffsetsResult,
    FetchResult,
    GroupDescription,
    GroupOverview,
    Heartbeat,
    Join,
    JoinedMember,
    JoinResult,
    LeaveResult,
    Leaving,
    MemberDescription,
    Reply,
    Sync,
    SyncResult,
    TopicPartition,
    TransactionalCommit,
)
from pylogbroker.groups.settings import GroupSettings

__all__ = [
    "GROUP_TYPE",
    "AppendCallback",
    "Commit",
    "CommitResult",
    "CommittedOffset",
    "DeleteOffsetsResult",
    "FetchResult",
    "GroupCoordinator",
    "GroupDescription",
    "GroupLogPort",
    "GroupOverview",
    "GroupReplay",
    "GroupSettings",
    "GroupState",
    "Heartbeat",
    "Join",
    "JoinResult",
    "JoinedMember",
    "LeaveResult",
    "Leaving",
    "MemberDescription",
    "NewGeneration",
    "ProducerIdAndEpoch",
    "Reply",
    "Sync",
    "SyncResult",
    "TopicPartition",
    "TransactionalCommit",
]
