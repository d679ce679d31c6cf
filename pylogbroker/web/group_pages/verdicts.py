"""Verdicts about groups: whether one keeps up, and if not, what holds it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from pylogbroker.web.formats import count_text, duration_text
from pylogbroker.web.group_pages.partitions import GroupPartition
from pylogbroker.web.group_views import has_members

_REBALANCING: Final = ("PreparingRebalance", "CompletingRebalance")
_MOVING: Final = {
    "Assigning": "The coordinator computes a new assignment; members keep theirs until then.",
    "Reconciling": "Partitions move between members; the others are read meanwhile.",
}
"""States of groups of KIP-848 in which partitions move, and what they mean."""

BEHIND_MS_MAX: Final = 60_000
"""A group keeps up as long as its oldest unread record is younger than this."""
_SILENT_MS_MIN: Final = 60_000
"""A member that has not committed for so long may be stuck."""


@attrs.frozen
class GroupVerdict:
    """Sentence that a page opens with; `kind` is ok, warn, bad or empty, `held` the partition that holds the group."""

    kind: str
    title: str
    detail: str = ""
    held: GroupPartition | None = None


@attrs.frozen
class GroupProgress:
    """State of a group; what is not known is None. `growth` is that of the lag in a minute.

    `unknown` is the number of partitions whose lag is not known.
    """

    state: str
    coordinator: int
    is_here: bool
    lag: int | None
    lag_without_commit: int
    growth: int | None
    behind_ms: int | None
    is_behind_more: bool
    unknown: int = 0


def verdict_of(progress: GroupProgress, partitions: Sequence[GroupPartition], now_ms: int) -> GroupVerdict:
    """Return whether a group keeps up, and whether partitions move between its members."""
    verdict = _pace_of(progress, partitions, now_ms)
    moves = _MOVING.get(progress.state)
    return verdict if moves is None else attrs.evolve(verdict, detail=f"{verdict.detail} {moves}")


def _pace_of(progress: GroupProgress, partitions: Sequence[GroupPartition], now_ms: int) -> GroupVerdict:
    lag = None if progress.lag is None else progress.lag + progress.lag_without_commit
    if not has_members(progress.state):
        return _without_members(lag, progress.unknown)
    if progress.state in _REBALANCING:
        return GroupVerdict("warn", "It rebalances.", "Its members get partitions, and read nothing meanwhile.")
    if lag is None:
        return GroupVerdict("warn", "It is not known whether it keeps up.", "No leader of its partitions answers.")
    if not lag and progress.unknown:
        return GroupVerdict("warn", "It is not known whether it keeps up.", "What is known of its partitions is read.")
    if not lag:
        return GroupVerdict("ok", "It keeps up.", "All records are read.")
    if progress.behind_ms is not None and not progress.is_behind_more and progress.behind_ms < BEHIND_MS_MAX:
        return GroupVerdict(
            "ok", "It keeps up.", f"The oldest unread record is {duration_text(progress.behind_ms)} old."
        )
    return _of_growth(progress, lag, _held(partitions, now_ms))


def _without_members(lag: int | None, unknown: int) -> GroupVerdict:
    if not lag:
        is_known = lag is not None and not unknown
        detail = "All records up to its offsets' ends were read." if is_known else "Its lag is not known."
        return GroupVerdict("", "Nobody reads.", detail)
    waiting = "1 record waits" if lag == 1 else f"{count_text(lag)} records wait"
    return GroupVerdict("warn", "Nobody reads.", f"The group has no members, and {waiting}. Start its consumers.")


def _of_growth(progress: GroupProgress, lag: int, held: GroupPartition | None) -> GroupVerdict:
    growth, records = progress.growth, f"{count_text(lag)} records"
    if growth is None and not progress.is_here:
        detail = f"{records} wait. Broker {progress.coordinator} coordinates the group, and knows its pace."
        return GroupVerdict("", "It has lag.", detail, held)
    if growth is None:
        detail = f"{records} wait. Its pace is known after a minute of samples."
        return GroupVerdict("", "It has lag.", detail, held)
    if growth < 0:
        rest = duration_text(lag * 60_000 // -growth)
        return GroupVerdict(
            "warn", f"It catches up in about {rest}.", f"{records} wait, {count_text(-growth)} fewer a minute."
        )
    if not growth:
        return GroupVerdict("bad", "It will not catch up at this rate.", f"Its lag stays at {records}.", held)
    detail = f"{records} wait, {count_text(growth)} more a minute."
    return GroupVerdict("bad", "It will not catch up at this rate.", detail, held)


def _held(partitions: Sequence[GroupPartition], now_ms: int) -> GroupPartition | None:
    """Return the partition with most lag of those whose member has not committed there for a while."""
    silent = [
        row
        for row in partitions
        if row.lag and row.member is not None and row.commit_ms is not None and now_ms - row.commit_ms >= _SILENT_MS_MIN
    ]
    return max(silent, key=lambda row: row.lag or 0, default=None)
