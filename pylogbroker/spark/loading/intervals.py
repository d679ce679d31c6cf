"""Offset ranges [start, end): covered and missing parts.

wanted     |=====================================|
covered       |=====|      |====|===|
missing    |==|     |======|        |============|
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

Range = tuple[int, int]
T = TypeVar("T")


def missing_in(start: int, end: int, covered: Iterable[Range]) -> list[Range]:
    """Return the uncovered ranges within [start, end)."""
    gaps = []
    for first, last in sorted(covered):
        if first >= end:
            break
        if first > start:
            gaps.append((start, first))
        start = max(start, last)
    return [*gaps, (start, end)] if start < end else gaps


def overlaps(one: Range, other: Range) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def apart(candidates: Iterable[T], taken: Iterable[Range], range_of: Callable[[T], Range]) -> list[T]:
    """Return candidates that overlap neither `taken` nor each other; at equal starts, the longest."""
    holes = sorted(taken)
    chosen: list[T] = []
    reached = -1
    for candidate in sorted(candidates, key=lambda choice: (range_of(choice)[0], -range_of(choice)[1])):
        start, end = range_of(candidate)
        if start < reached or any(overlaps((start, end), hole) for hole in holes):
            continue
        chosen.append(candidate)
        reached = end
    return chosen
