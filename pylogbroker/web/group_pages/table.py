"""The list of groups: search and sort order over all of them, one page of rows.

Groups that this broker coordinates are shown as the last sample found them. Other coordinators are asked for the rows
of their groups once these are shown, so that a sort order by such a value has these groups at its lower end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final

import attrs

from pylogbroker.groups import GroupType
from pylogbroker.web.group_lags import GroupPace
from pylogbroker.web.group_views import counts_of
from pylogbroker.web.paging import Paged, PageNumber, paged
from pylogbroker.web.parameters import Search
from pylogbroker.web.responsible_brokers import ask_all, lacks_group_coordinators
from pylogbroker.web.router.values import OneOf
from pylogbroker.web.share_groups import share_groups_of_each
from pylogbroker.web.visitors import Visitor
from pylogbroker.wire.messages.list_groups import ListedGroup, ListGroupsRequest

_KEYS: Final = ("id", "state", "kind", "members", "lag", "behind", "trend", "topics")
Sort = Annotated[str, OneOf((*_KEYS, *(f"-{key}" for key in _KEYS))), "a column; with - before it downwards"]
_TOPICS_SHOWN_MAX: Final = 2
_SIMPLE: Final = "simple"
"""Kind of a group that commits offsets, and never had members."""
OF_KIP_848: Final = "consumer (KIP-848)"
"""Kind of a group whose coordinator assigns partitions."""
OF_KIP_932: Final = "share (KIP-932)"
"""Kind of a group whose members share the records of partitions."""
OF_KIP_1071: Final = "streams (KIP-1071)"
"""Kind of a group of Kafka Streams, whose coordinator assigns tasks."""
_KINDS: Final[Mapping[str, str]] = {
    GroupType.CONSUMER: OF_KIP_848,
    GroupType.SHARE: OF_KIP_932,
    GroupType.STREAMS: OF_KIP_1071,
}


@attrs.frozen
class GroupLine:
    """A group; what is not known or not shown is None. `growth` is that of the lag in a minute.

    Who may describe the cluster sees the ids and states of all groups, but no more of others than their own.
    """

    id: str
    state: str
    kind: str
    coordinator: int
    members: int | None = None
    lag: int | None = None
    behind_ms: int | None = None
    is_behind_more: bool = False
    growth: int | None = None
    topics: tuple[str, ...] | None = None
    history: Sequence[int | None] = ()
    is_hidden: bool = False

    @property
    def is_share(self) -> bool:
        return self.kind == OF_KIP_932

    @property
    def shown_topics(self) -> tuple[str, ...]:
        return (self.topics or ())[:_TOPICS_SHOWN_MAX]


class GroupTable(Paged):
    """`unanswered` are brokers whose groups are missing, `loading` those of which some are.

    `unknown` groups have no lag in the last sample: `lag` leaves them out, and so does `with_lag`.
    """

    search: str
    with_lag: bool
    all_groups: int
    lag: int
    unknown: int
    lacks_coordinators: bool
    unanswered: list[int]
    loading: list[int]
    groups: list[GroupLine]


async def group_table(
    visitor: Visitor, search: Search = "", sort: Sort = "id", page: PageNumber = 1, with_lag: bool = False
) -> GroupTable:
    """Return a page of groups, of those whose ids contain `search`."""
    over = visitor.services.runtime.slices.over
    answers = await ask_all(visitor, ListGroupsRequest())
    members = {group.group_id: len(group.members) async for group in over(tuple(visitor.services.groups.groups()))}
    all_groups, unknown, rows = 0, 0, list[GroupLine]()
    for broker_id, answer in answers.items():
        async for listed in over(() if answer is None else answer.groups):
            all_groups += 1
            if search in listed.group_id:
                row = _row(visitor, broker_id, listed, members)
                unknown += row.lag is None
                rows += [row] if not with_lag or row.lag else []
    rows = await visitor.services.runtime.slices.in_order(rows, key=_order(sort.removeprefix("-")))
    values, shown = paged(page, sort, rows[::-1] if sort.startswith("-") else rows)
    return {
        "search": search,
        "with_lag": with_lag,
        "all_groups": all_groups,
        "lag": sum(row.lag or 0 for row in rows),
        "unknown": unknown,
        "lacks_coordinators": lacks_group_coordinators(visitor.services),
        "unanswered": [broker for broker, answer in answers.items() if answer is None],
        "loading": [broker for broker, answer in answers.items() if answer is not None and answer.error_code],
        **values,
        "groups": await _completed(visitor, shown),
    }


def _row(visitor: Visitor, broker_id: int, listed: ListedGroup, members: Mapping[str, int]) -> GroupLine:
    """Return a group as the last sample found it."""
    group_id, lags = listed.group_id, visitor.samples.group_lags
    kind = _KINDS.get(listed.group_type, listed.protocol_type or _SIMPLE)
    named = (group_id, listed.group_state, kind, broker_id)
    if not visitor.sees_group(group_id):
        return GroupLine(*named, is_hidden=True)
    if broker_id != visitor.services.node.id or kind == OF_KIP_932:  # samples are of groups that commit offsets
        return GroupLine(*named)
    pace, count = lags.paces.get(group_id), members.get(group_id)
    if pace is None:
        return GroupLine(*named, count)
    topics = visible_topics(visitor, pace)
    if len(topics) < len(pace.topics):  # the others must not be guessed from sums
        lag = sum(lags.topics.get(topic, {}).get(group_id, 0) for topic in topics)
        return GroupLine(*named, count, lag, topics=topics)
    growth = lags.growth_a_minute(group_id)
    return GroupLine(*named, count, lags.last(group_id), pace.behind_ms, pace.is_behind_more, growth, topics)


def visible_topics(visitor: Visitor, pace: GroupPace) -> tuple[str, ...]:
    """Return those of a group's topics that the visitor may see."""
    if visitor.context.access is None:
        return pace.topics
    return tuple(topic for topic in pace.topics if visitor.sees_topic(topic))


def _order(column: str) -> Callable[[GroupLine], Any]:
    orders: dict[str, Callable[[GroupLine], Any]] = {
        "id": lambda row: row.id,
        "state": lambda row: (row.state, row.id),
        "kind": lambda row: (row.kind, row.id),
        "members": lambda row: (-1 if row.members is None else row.members, row.id),
        "lag": lambda row: (-1 if row.lag is None else row.lag, row.id),
        "behind": lambda row: (-1 if row.behind_ms is None else row.behind_ms, row.id),
        "trend": lambda row: (row.growth is not None, row.growth or 0, row.id),
        "topics": lambda row: (-1 if row.topics is None else len(row.topics), row.id),
    }
    return orders[column]


async def _completed(visitor: Visitor, shown: Sequence[GroupLine]) -> list[GroupLine]:
    """Return rows with the last hour of sampled groups; the coordinators of the others are asked for these."""
    lags, here = visitor.samples.group_lags, visitor.services.node.id
    to_ask = [row for row in shown if row.topics is None and not row.is_hidden]
    counts = await counts_of(visitor, [(row.coordinator, row.id) for row in to_ask if not row.is_share])
    shared = await share_groups_of_each(visitor, [(row.coordinator, row.id) for row in to_ask if row.is_share])
    rows: list[GroupLine] = []
    for row in shown:
        if row.id in shared:
            group = shared[row.id]
            rows.append(attrs.evolve(row, members=len(group.members), lag=group.lag, topics=group.topics))
        elif row.id in counts:
            rows.append(attrs.evolve(row, members=counts[row.id].members, lag=counts[row.id].lag))
        elif row.coordinator == here and row.behind_ms is not None:
            rows.append(attrs.evolve(row, history=lags.sparse(row.id)))
        else:
            rows.append(row)
    return rows
