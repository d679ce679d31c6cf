"""Parameters of the page's address, and addresses with other parameters.

    /topics/orders/records?order=newest&partition=0,4-7&time=hour&start=-2h&text=paid&where=value.amount > 10

| start            | is                                         |
|------------------|--------------------------------------------|
| 390865           | an offset of each partition that is chosen |
| 4:390865         | an offset of partition 4                   |
| 09:30, 09:30:05  | that time of today, in UTC                 |
| -2h, -15m, -3d   | so long ago                                |
| 2026-11-28T07:00 | a time, in UTC unless it says              |
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import quote, urlencode

import attrs

from pylogbroker.conditions import BadCondition, RecordCondition, compile_condition
from pylogbroker.conditions.syntax import Path, parse_path
from pylogbroker.web.parameters import INT32_MAX, milliseconds
from pylogbroker.web.record_search.search import PARTITIONS_MAX, SearchRequest, StartPoint
from pylogbroker.web.record_search.selection import Selection
from pylogbroker.web.router import BadRequest

COLUMNS: Final = ("time", "place", "key", "value", "headers", "size")
COLUMNS_DEFAULT: Final = ("time", "place", "key", "value")
COLUMNS_MAX: Final = 12
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_HOUR_MS: Final = 3_600_000
_OFFSET_DIGITS_MAX: Final = 18


class BadField(ValueError):
    """A field of the form is not understood; `field` is its name."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


@attrs.frozen
class RecordQuery:
    """Texts of the form as they were typed; `after` has the positions to go on from, `at` the opened record."""

    topic: str
    order: str = "newest"
    partition: str = ""
    time: str = ""
    since: str = ""
    until: str = ""
    start: str = ""
    text: str = ""
    where: str = ""
    columns: str = ""
    after: str = ""
    at: str = ""
    show: str = ""

    def link(self, below: str = "", **changes: object) -> str:
        """Return the address of this page, or of one below it, with other parameters."""
        values = {**attrs.asdict(self), **changes}
        given = {
            name: str(value)
            for name, value in values.items()
            if name != "topic" and value not in ("", None) and (name, value) != ("order", "newest")
        }
        path = f"/topics/{quote(self.topic, safe='')}/records{below}"
        return f"{path}?{urlencode(given, quote_via=quote, safe=':,')}" if given else path

    @property
    def is_filtered(self) -> bool:
        return bool(self.text or self.where or self.time)

    @property
    def is_live(self) -> bool:
        return self.order == "live"

    def condition(self) -> RecordCondition | None:
        """Raise BadField."""
        if not self.where.strip():
            return None
        try:
            return compile_condition(self.where)
        except BadCondition as error:
            raise BadField("where", str(error)) from None

    def shown_columns(self) -> list[str | Path]:
        """Return names of columns and paths of others; raise BadField."""
        names = [name.strip() for name in self.columns.split(",") if name.strip()] or [*COLUMNS_DEFAULT]
        if len(names) > COLUMNS_MAX:
            raise BadField("columns", f"There are {len(names)} columns: choose at most {COLUMNS_MAX}.")
        columns: list[str | Path] = []
        for name in dict.fromkeys(names):
            if name in COLUMNS:
                columns.append(name)
                continue
            try:
                path = parse_path(name)
            except BadCondition as error:
                message = str(error).replace("The condition", f"The column {name}")
                raise BadField("columns", message) from None
            columns.append(path)
        return columns

    def partitions(self) -> list[int]:
        """Return the partitions that are chosen, none for all; raise BadField."""
        indexes: list[int] = []
        for part in self.partition.split(","):
            match = re.fullmatch(r"\s*([0-9]{1,9})\s*(?:-\s*([0-9]{1,9})\s*)?", part)
            if match is None and part.strip():
                raise BadField("partition", f"{part.strip()} is no partition. Write numbers like 0,4-7.")
            if match is not None:
                first, last = int(match[1]), int(match[2] or match[1])
                if last - first >= PARTITIONS_MAX or last > INT32_MAX:
                    raise BadField("partition", f"{part.strip()} are more than {PARTITIONS_MAX} partitions.")
                indexes += range(first, last + 1)
        return sorted(set(indexes))

    def search_request(self, now_ms: int, rows_max: int) -> SearchRequest:
        """Raise BadField."""
        since_ms, until_ms = self._times(now_ms)
        selection = Selection(self.condition(), self.text, since_ms, until_ms)
        partition, point = _start_point(self.start.strip(), now_ms)
        partitions = self.partitions() if partition is None else [partition]
        is_newest_first = self.order != "oldest"
        positions = parsed_positions(self.after)
        return SearchRequest(
            self.topic, selection, partitions, is_newest_first, point, positions=positions, rows_max=rows_max
        )

    def _times(self, now_ms: int) -> tuple[int, int]:
        if self.time == "hour":
            return now_ms - _HOUR_MS, -1
        if self.time == "today":
            return now_ms - now_ms % (24 * _HOUR_MS), -1
        if self.time == "range":
            return _moment("since", self.since, now_ms, -1), _moment("until", self.until, now_ms, -1)
        return -1, -1


def _moment(field: str, text: str, now_ms: int, missing: int) -> int:
    if not text.strip():
        return missing
    moment = _time(text.strip(), now_ms)
    if moment is None:
        raise BadField(field, f"{text} is no time. Write a time like 2026-11-28T07:00, 09:30 or -2h.")
    return moment


def _start_point(text: str, now_ms: int) -> tuple[int | None, StartPoint]:
    """Return a partition, if one is named, and where to start; raise BadField."""
    if not text:
        return None, StartPoint()
    match = re.fullmatch(rf"(?:([0-9]{{1,9}}):)?([0-9]{{1,{_OFFSET_DIGITS_MAX}}})", text.replace(" ", ""))
    is_hour = re.fullmatch(r"[0-9]{1,2}:[0-9]{2}", text) is not None and int(text.partition(":")[0]) < 24
    if match is not None and not (is_hour and int(text.partition(":")[2]) < 60):
        return None if match[1] is None else int(match[1]), StartPoint(offset=int(match[2]))
    moment = _time(text, now_ms)
    if moment is None:
        message = f"{text} is no start. Write an offset, 4:390865 for one of partition 4, or a time like 09:30 or -2h."
        raise BadField("start", message)
    return None, StartPoint(time_ms=moment)


def _time(text: str, now_ms: int) -> int | None:
    """Return milliseconds since 1970 of a time, None for another text."""
    if ago := re.fullmatch(r"-([0-9]{1,6})\s*([smhd])", text):
        return max(0, now_ms - int(ago[1]) * _UNITS[ago[2]] * 1000)
    if clock := re.fullmatch(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?", text):
        hour, minute, second = (int(part or 0) for part in clock.groups())
        if hour > 23 or minute > 59 or second > 59:
            return None
        today = datetime.fromtimestamp(now_ms / 1000, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        return int((today + timedelta(hours=hour, minutes=minute, seconds=second)).timestamp() * 1000)
    try:
        return milliseconds(text)
    except BadRequest:
        return None


def positions_text(positions: Mapping[int, int]) -> str:
    return ",".join(f"{partition}:{offset}" for partition, offset in positions.items())


def parsed_positions(text: str) -> dict[int, int]:
    """Return offsets by partition of an address; raise BadField."""
    if not re.fullmatch(rf"(?:[0-9]{{1,9}}:[0-9]{{1,{_OFFSET_DIGITS_MAX}}}(?:,|$))*", text):
        raise BadField("after", "The positions of this address are not understood. Search again from the start.")
    pairs = [pair.split(":") for pair in text.split(",") if pair]
    return {int(partition): int(offset) for partition, offset in pairs}


def parsed_place(text: str) -> tuple[int, int]:
    """Return partition and offset of a permalink; raise BadField."""
    match = re.fullmatch(rf"([0-9]{{1,9}}):([0-9]{{1,{_OFFSET_DIGITS_MAX}}})", text.strip())
    if match is None:
        raise BadField("at", f"{text} names no record. Write partition and offset: 4:390865.")
    return int(match[1]), int(match[2])
