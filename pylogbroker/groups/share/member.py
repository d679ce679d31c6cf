"""A member of a share group."""

from __future__ import annotations

import attrs

from pylogbroker.coordinators import Timer
from pylogbroker.groups.consumer.partitions import TopicIdPartition


@attrs.define(eq=False, repr=False)
class ShareMember:
    """`assigned` is the part of the target assignment that the member has reached, at `epoch`."""

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    epoch: int = 0
    previous_epoch: int = 0
    assigned: frozenset[TopicIdPartition] = frozenset()
    session: Timer | None = None
