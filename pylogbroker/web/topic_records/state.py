"""State of a search in words: how many matches in how many records, how far back, and what is left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import attrs

from pylogbroker.web.record_search.search import TopicSearch
from pylogbroker.web.topic_records.cells import time_texts
from pylogbroker.web.topic_records.query import RecordQuery, positions_text

End = Literal["running", "rows", "bound", "end", "stopped"]


@attrs.frozen
class SearchState:
    """`matches` counts the matches since the search began, also those of earlier pages."""

    end: End
    matches: int
    looked_at: int
    total: int
    back_to: str
    seconds: float
    rate: int
    positions: str
    problems: Sequence[str]
    is_filtered: bool
    is_newest_first: bool

    @property
    def seconds_left(self) -> int | None:
        left = self.total - self.looked_at
        return round(left / self.rate) if self.rate and left else None

    @property
    def noun(self) -> str:
        word = "match" if self.is_filtered else "record"
        return word if self.matches == 1 else f"{word}{'es' if self.is_filtered else 's'}"


def state_of(
    query: RecordQuery, search: TopicSearch, end: End, matches: int, seconds: float, looked_at_before: int, year: int
) -> SearchState:
    time = search.time
    rate = round((search.looked_at - looked_at_before) / seconds) if seconds > 0.2 else 0
    return SearchState(
        end,
        matches,
        search.looked_at,
        search.total,
        time_texts(time, year)[0] if time is not None and time >= 0 else "",
        seconds,
        rate,
        positions_text(search.positions),
        search.problems,
        query.is_filtered,
        search.request.is_newest_first,
    )
