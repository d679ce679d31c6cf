"""The page of one share group: partitions, members, and where dead letters go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final

from pylogbroker.web.group_pages.partitions import ranges_by_topic
from pylogbroker.web.group_views import GroupId, has_members
from pylogbroker.web.paging import Paged, PageNumber, paged
from pylogbroker.web.parameters import ROWS_MAX
from pylogbroker.web.router.values import OneOf
from pylogbroker.web.share_groups import SharePartitionRow, ShownShareMember, read_share_group, sum_of_known
from pylogbroker.web.visitors import Visitor

_KEYS: Final = ("partition", "start", "lag", "flight")
Sort = Annotated[str, OneOf((*_KEYS, *(f"-{key}" for key in _KEYS))), "a column; with - before it downwards"]


class ShareGroupPage(Paged):
    """`in_flight` and `lag` are the sums of what is known; `unknown` partitions have no known lag.

    `dead_letter_topic` is empty if records that are rejected or delivered too often are dropped.
    """

    id: str
    state: str
    is_read: bool
    epoch: int
    target_epoch: int
    assignor: str
    coordinator: int
    lag: int | None
    unknown: int
    in_flight: int | None
    led_elsewhere: int
    all_partitions: int
    partitions: Sequence[SharePartitionRow]
    member_count: int
    members: Sequence[tuple[ShownShareMember, Sequence[tuple[str, str]]]]
    dead_letter_topic: str
    delivery_limit: int
    lock_ms: int


async def share_group_details(
    visitor: Visitor, id: GroupId, sort: Sort = "partition", page: PageNumber = 1
) -> ShareGroupPage:
    """Return a share group with a page of its partitions; raise KafkaError."""
    group = await read_share_group(visitor, id)
    settings = visitor.services.share_groups.settings_of(id)
    key = _order(sort.removeprefix("-"))
    ordered = await visitor.services.runtime.slices.in_order(group.partitions, key=key)
    values, shown = paged(page, sort, ordered[::-1] if sort.startswith("-") else ordered)
    topic = settings.dead_letter_topic
    return {
        "id": id,
        "state": group.state,
        "is_read": has_members(group.state),
        "epoch": group.epoch,
        "target_epoch": group.target_epoch,
        "assignor": group.assignor,
        "coordinator": group.coordinator,
        "lag": group.lag,
        "unknown": sum(row.lag is None for row in group.partitions),
        "in_flight": sum_of_known([row.in_flight for row in group.partitions]),
        "led_elsewhere": sum(row.in_flight is None for row in group.partitions),
        "all_partitions": len(group.partitions),
        **values,
        "partitions": shown,
        "member_count": len(group.members),
        "members": [(member, ranges_by_topic(member.partitions)) for member in group.members[:ROWS_MAX]],
        "dead_letter_topic": topic if topic and visitor.sees_topic(topic) else "",
        "delivery_limit": settings.records.delivery_count_limit,
        "lock_ms": settings.records.lock_duration_ms,
    }


def _order(column: str) -> Callable[[SharePartitionRow], Any]:
    """Return what partitions are sorted by; values that are not known come first."""
    orders: dict[str, Callable[[SharePartitionRow], Any]] = {
        "partition": lambda row: (row.topic, row.index),
        "start": lambda row: (-1 if row.start is None else row.start, row.topic, row.index),
        "lag": lambda row: (-1 if row.lag is None else row.lag, row.topic, row.index),
        "flight": lambda row: (-1 if row.in_flight is None else row.in_flight, row.topic, row.index),
    }
    return orders[column]
