"""Choice of the replica from which a consumer should read: one in its rack (KIP-392)."""

from __future__ import annotations

from collections.abc import Iterable

import attrs


@attrs.frozen
class ReadReplica:
    broker_id: int
    rack: str | None
    log_end_offset: int
    behind_ms: int
    """Time since it was caught up."""


def select_read_replica(client_rack: str, leader: ReadReplica, followers: Iterable[ReadReplica]) -> ReadReplica:
    """Return the most caught-up follower in the client's rack; the leader if its rack fits, or no other does."""
    if not client_rack or leader.rack == client_rack:
        return leader
    near = [follower for follower in followers if follower.rack == client_rack]
    return max(
        near, key=lambda follower: (follower.log_end_offset, -follower.behind_ms, -follower.broker_id), default=leader
    )
