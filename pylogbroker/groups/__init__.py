"""Consumer groups and their offsets: Kafka's classic group protocol as a state machine that does no I/O.

    coordinator = GroupCoordinator(GroupSettings(), store)      # where the records go
    coordinator.load(partition, entries, now_ms)                # once per partition of __consumer_offsets
    coordinator.join(Join(...), reply, now_ms)                  # reply(JoinResult(...)), now or later
    coordinator.tick(now_ms)                                    # whenever coordinator.next_deadline() has come

`states` draws what a group goes through, `layout` the bytes of its records. `membership`, `rebalance` and `commits`
hold the rules; `group`, `member` and `offsets` hold what is remembered.
"""

from pylogbroker.groups.coordinator import GROUP_TYPE, GroupCoordinator
from pylogbroker.groups.loading import Loading
from pylogbroker.groups.rebalance import NewGeneration
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
from pylogbroker.groups.states import GroupState
from pylogbroker.groups.store import GroupStore, Producer, Stored

__all__ = [
    "GROUP_TYPE",
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
    "GroupStore",
    "Heartbeat",
    "Join",
    "JoinResult",
    "JoinedMember",
    "LeaveResult",
    "Leaving",
    "Loading",
    "MemberDescription",
    "NewGeneration",
    "Producer",
    "Reply",
    "Stored",
    "Sync",
    "SyncResult",
    "TopicPartition",
    "TransactionalCommit",
]
