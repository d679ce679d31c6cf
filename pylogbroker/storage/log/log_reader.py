"""Finds the region of one segment that a fetch returns: whole batches only.

A consumer's next fetch begins where its last one ended. A cache, offset -> (segment, position), saves these searches.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import attrgetter
from typing import Final

from pylogbroker.storage.files import FileRegion
from pylogbroker.storage.log.segment import Segment

Segments = tuple[Segment, ...]
_base_offset = attrgetter("base_offset")
_POSITIONS_MAX: Final = 64


class LogReader:
    __slots__ = ("_places",)

    def __init__(self) -> None:
        self._places: dict[int, tuple[Segment, int]] = {}

    def region(
        self,
        segments: Segments,
        offset: int,
        max_bytes: int,
        upto: int,
        log_end_offset: int,
        min_one: bool,
        may_wait: bool,
    ) -> FileRegion | None:
        place = self._places.get(offset)
        if place is None or place[1] >= place[0].size:
            place = self.locate(segments, offset, may_wait)
            if place is None:
                return None
        segment, position = place
        stop = segment.size
        next_offset = log_end_offset if segment is segments[-1] else -1
        if upto < log_end_offset:
            bound = self._places.get(upto) or self.locate(segments, upto, may_wait)
            if bound is not None and bound[0] is segment:
                stop, next_offset = bound[1], upto
        if position + max_bytes < stop:
            header = segment.boundary(position, position + max_bytes, may_wait)
            if header is not None:
                stop, next_offset = header.position, header.first_offset
                if stop == position and min_one:
                    stop, next_offset = stop + header.size, header.last_offset + 1
        if stop <= position:
            return None
        self._remember(next_offset, segment, stop)
        if next_offset < 0:
            next_offset = segments[bisect_right(segments, segment.base_offset, key=_base_offset)].base_offset
        return segment.file.region(position, stop - position, next_offset)

    def locate(self, segments: Segments, offset: int, may_wait: bool) -> tuple[Segment, int] | None:
        first = max(bisect_right(segments, offset, key=_base_offset) - 1, 0)
        for segment in segments[first:]:
            header = segment.find(offset, may_wait)
            if header is not None:
                self._remember(offset, segment, header.position)
                return segment, header.position
        return None

    def _remember(self, offset: int, segment: Segment, position: int) -> None:
        places = self._places
        if offset >= 0:
            if len(places) >= _POSITIONS_MAX:
                del places[next(iter(places))]
            places[offset] = segment, position

    def forget(self) -> None:
        self._places.clear()
