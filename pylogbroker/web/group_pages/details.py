"""One group: whether it keeps up, its lag over the last hour, partitions and members."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final

import attrs

from pylogbroker.web.charts import Chart, count_chart
from pylogbroker.web.described_groups import GroupEpochs
from pylogbroker.web.group_lags import LagSample
from pylogbroker.web.group_offsets import Committed
from pylogbroker.web.group_pages.partitions import GroupPartition, ShownMember, members_of, partitions_of
from pylogbroker.web.group_pages.verdicts import GroupProgress, GroupVerdict, verdict_of
from pylogbroker.web.group_views import GroupId, read_group
from pylogbroker.web.paging import Paged, PageNumber, paged
from pylogbroker.web.parameters import ROWS_MAX
from pylogbroker.web.responsible_brokers import group_coordinator
from pylogbroker.web.router.values import OneOf
from pylogbroker.web.visitors import Visitor

_KEYS: Final = ("partition", "member", "committed", "end", "lag", "behind", "commit")
Sort = Annotated[str, OneOf((*_KEYS, *(f"-{key}" for key in _KEYS))), "a column; with - before it downwards"]


class GroupDetailsPage(Paged):
    """`most_lag` is that of one partition, `unknown` the number of partitions without a known lag."""

    id: str
    state: str
    protocol_type: str
    assignor: str
    epochs: GroupEpochs | None
    coordinator: int
    now_ms: int
    with_lag: bool
    verdict: GroupVerdict
    lag: int | None
    lag_without_commit: int
    without_commit: int
    unknown: int
    behind_ms: int | None
    is_behind_more: bool
    read: float | None
    written: float | None
    most_lag: int
    all_partitions: int
    partitions: Sequence[GroupPartition]
    member_count: int
    members: Sequence[ShownMember]
    history: Sequence[LagSample] | None
    chart: Chart


async def group_details(
    visitor: Visitor, id: GroupId, sort: Sort = "partition", page: PageNumber = 1, with_lag: bool = False
) -> GroupDetailsPage:
    """Return a group with a page of its partitions."""
    description, committed = await read_group(visitor, id)
    slices, lags = visitor.services.runtime.slices, visitor.samples.group_lags
    members = await members_of(visitor, description)
    partitions = await partitions_of(visitor, description, committed, members)
    coordinator, now_ms = group_coordinator(visitor.services, id), visitor.services.runtime.now_ms()
    is_sampled = _is_sampled(visitor, id, coordinator, committed)
    history = lags.of(id) if is_sampled else None
    pace = lags.paces.get(id) if is_sampled else None
    sums = await _sums(visitor, partitions)
    progress = GroupProgress(
        description.state,
        coordinator,
        coordinator == visitor.services.node.id,
        sums.lag,
        sums.lag_without_commit,
        lags.growth_a_minute(id) if is_sampled else None,
        sums.behind_ms,
        sums.is_behind_more,
        sums.unknown,
    )
    chosen = [row async for row in slices.over(partitions) if not with_lag or row.lag != 0]
    chosen = await slices.in_order(chosen, key=_order(sort.removeprefix("-")))
    values, shown = paged(page, sort, chosen[::-1] if sort.startswith("-") else chosen)
    samples = history or []
    return {
        "id": id,
        "state": description.state,
        "protocol_type": description.protocol_type,
        "assignor": description.assignor,
        "epochs": description.epochs,
        "coordinator": coordinator,
        "now_ms": now_ms,
        "with_lag": with_lag,
        "verdict": verdict_of(progress, partitions, now_ms),
        "lag": sums.lag,
        "lag_without_commit": sums.lag_without_commit,
        "without_commit": sums.without_commit,
        "unknown": sums.unknown,
        "behind_ms": sums.behind_ms,
        "is_behind_more": sums.is_behind_more,
        "read": None if pace is None else pace.read,
        "written": None if pace is None else pace.written,
        "most_lag": sums.most_lag,
        "all_partitions": len(partitions),
        **values,
        "partitions": shown,
        "member_count": len(members),
        "members": members[:ROWS_MAX],
        "history": history,
        "chart": count_chart([sample.time_ms for sample in samples], [sample.lag for sample in samples]),
    }


def _is_sampled(visitor: Visitor, group_id: str, coordinator: int, committed: Committed) -> bool:
    """Return whether samples are of what the visitor sees: those of this broker, of all topics."""
    services = visitor.services
    return coordinator == services.node.id and services.groups.count_offsets(group_id) == len(committed)


@attrs.frozen
class _Sums:
    """Sums over partitions; `lag` is None if no lag is known, and without those that have no commit."""

    lag: int | None
    lag_without_commit: int
    without_commit: int
    unknown: int
    most_lag: int
    behind_ms: int | None
    is_behind_more: bool


async def _sums(visitor: Visitor, partitions: Sequence[GroupPartition]) -> _Sums:
    lags, lags_without, oldest_ms = [0], [0], 0
    without_commit = unknown = 0
    is_behind_more = False
    async for row in visitor.services.runtime.slices.over(partitions):
        without_commit += not row.has_commit
        if row.lag is None:
            unknown += 1
            is_behind_more = True
            continue
        (lags if row.has_commit else lags_without).append(max(0, row.lag))
        if row.behind_ms is None:
            is_behind_more = True
        elif row.behind_ms > oldest_ms:
            oldest_ms, is_behind_more = row.behind_ms, row.is_behind_more or is_behind_more
    has_lag = not partitions or unknown < len(partitions)
    has_age = has_lag and (oldest_ms > 0 or not is_behind_more)
    return _Sums(
        sum(lags) if has_lag else None,
        sum(lags_without),
        without_commit,
        unknown,
        max(*lags, *lags_without),
        oldest_ms if has_age else None,
        is_behind_more,
    )


def _order(column: str) -> Callable[[GroupPartition], Any]:
    """Return what partitions are sorted by; values that are not known come first."""
    orders: dict[str, Callable[[GroupPartition], Any]] = {
        "partition": lambda row: (row.topic, row.index),
        "member": lambda row: ("" if row.member is None else row.member.name, row.topic, row.index),
        "committed": lambda row: (row.has_commit, row.offset or 0, row.topic, row.index),
        "end": lambda row: (-1 if row.end is None else row.end, row.topic, row.index),
        "lag": lambda row: (row.lag is not None, row.lag or 0, row.topic, row.index),
        "behind": lambda row: (-1 if row.behind_ms is None else row.behind_ms, row.topic, row.index),
        "commit": lambda row: (-1 if row.commit_ms is None else row.commit_ms, row.topic, row.index),
    }
    return orders[column]
