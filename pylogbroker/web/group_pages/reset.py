"""Reset of a group's offsets: the form, a preview of each offset, and the change by the group's name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypedDict

import attrs

from pylogbroker.errors import KafkaError
from pylogbroker.web.formats import count_text
from pylogbroker.web.group_pages.partitions import ShownMember, members_of
from pylogbroker.web.group_reset import (
    Reset,
    ResetPartition,
    ResetPlan,
    ResetRequest,
    ResetTopic,
    Shift,
    Target,
    plan_reset,
    reset_group,
)
from pylogbroker.web.group_views import GroupId, has_members, read_group
from pylogbroker.web.paging import PageNumber, paged
from pylogbroker.web.parameters import Index, Name, Offset, Time
from pylogbroker.web.router import BadRequest
from pylogbroker.web.router.values import BadValue, from_text
from pylogbroker.web.visitors import Visitor

NAMED_MEMBERS_MAX: Final = 5


@attrs.frozen
class ResetLine:
    """An offset before and after; `is_moved` if the log does not have the offset that was asked for."""

    topic: str
    index: int
    before: int
    after: int
    lag: int
    is_moved: bool

    @property
    def change(self) -> int:
        return self.after - self.before


@attrs.frozen
class ResetPreview:
    rows: Sequence[ResetLine]
    page: int
    pages: int
    total: int
    change: int
    lag: int
    words: str
    moved: int
    """Offsets that become the nearest ones of the log."""


class ResetPage(TypedDict):
    id: str
    state: str
    may_reset: bool
    topics: list[str]
    given: dict[str, str]
    preview: ResetPreview | None
    error: str
    members: Sequence[ShownMember]
    member_count: int


async def reset_page(
    visitor: Visitor,
    id: GroupId,
    to: Name = "",
    topic: ResetTopic = "",
    partition: Name = "",
    offset: Name = "",
    time: Name = "",
    by: Name = "",
    page: PageNumber = 1,
) -> ResetPage:
    """Return the form of a reset as it was typed, and with `to` what the reset would change."""
    description, committed = await read_group(visitor, id)
    given = {"to": to, "topic": topic, "partition": partition, "offset": offset, "time": time, "by": by}
    preview, error = None, ""
    if to:
        try:
            request = _request(given)
            preview = await _preview(visitor, await plan_reset(visitor, id, request), request, page)
        except BadRequest as wrong:
            error = str(wrong)
        except KafkaError as failure:
            error = failure.detail
    members = await members_of(visitor, description)
    return {
        "id": id,
        "state": description.state,
        "may_reset": not has_members(description.state),
        "topics": sorted({key[0] async for key in visitor.services.runtime.slices.over(committed)}),
        "given": given,
        "preview": preview,
        "error": error,
        "members": members[:NAMED_MEMBERS_MAX],
        "member_count": len(members),
    }


def _request(given: Mapping[str, str]) -> ResetRequest:
    """Return what was typed; raise BadRequest."""
    kinds = {"partition": Index, "offset": Offset, "by": int}
    try:
        numbers = {name: from_text(kind, given[name], name) for name, kind in kinds.items() if given[name]}
        to = from_text(Target, given["to"], "to")
    except BadValue as error:
        raise BadRequest(str(error)) from None
    return ResetRequest(to, given["topic"], time=given["time"], **numbers)


async def _preview(visitor: Visitor, plan: ResetPlan, request: ResetRequest, page: int) -> ResetPreview:
    over = visitor.services.runtime.slices.over
    rows = [_line(plan, request, key) async for key in over(plan.after)]
    again, skipped, lag, moved = 0, 0, 0, 0
    async for row in over(rows):
        again += max(0, -row.change)
        skipped += max(0, row.change)
        lag += row.lag
        moved += row.is_moved
    values, shown = paged(page, "", rows)
    total = values["total"]
    words = reset_words(again, skipped)
    return ResetPreview(shown, values["page"], values["pages"], total, skipped - again, lag, words, moved)


def _line(plan: ResetPlan, request: ResetRequest, key: tuple[str, int]) -> ResetLine:
    before, after = plan.before[key].offset, plan.after[key]
    target = {"offset": request.offset, "shift": before + (request.by or 0)}.get(request.to, after)
    return ResetLine(*key, before, after, plan.ends[key] - after, target != after)


def reset_words(again: int, skipped: int) -> str:
    """Return how many records are read again and skipped."""
    if not again and not skipped:
        return "Nothing changes: the offsets are there already."
    first = f"{_records(again)} read a second time" if again else "No record is read a second time"
    return f"{first}, {_records(skipped) if skipped else 'none is'} skipped."


def _records(count: int) -> str:
    return "1 record is" if count == 1 else f"{count_text(count)} records are"


async def reset_group_confirmed(
    visitor: Visitor,
    id: GroupId,
    to: Target,
    confirm: Name,
    topic: ResetTopic = "",
    partition: ResetPartition = None,
    offset: Offset | None = None,
    time: Time = "",
    by: Shift = None,
) -> Reset:
    """Commit offsets for a group without members, whose id is given twice."""
    if confirm != id:
        raise BadRequest(f"write {id}, the id of the group whose offsets are reset", "confirm")
    return await reset_group(visitor, id, to, topic, partition, offset, time, by)
