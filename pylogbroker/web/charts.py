"""Lines of a chart, as SVG wants them: the page's policy forbids scripts and styles within the HTML."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypedDict

from pylogbroker.web.formats import NOT_KNOWN, count_text, number_text, size_rate_text

WIDTH: Final = 600
HEIGHT: Final = 120
SPARK_WIDTH: Final = 84
SPARK_HEIGHT: Final = 17


def spark_lines(values: Sequence[float | None]) -> Iterator[str]:
    """Yield the points of each line of a small chart from 0 up; gaps stay gaps."""
    yield from _lines(values, SPARK_WIDTH, SPARK_HEIGHT, max((value or 0 for value in values), default=0))


def _lines(values: Sequence[float | None], width: float, height: float, most: float) -> Iterator[str]:
    """Yield the points of each line of values at equal distances; the last value is at the right."""
    step = width / max(1, len(values) - 1)
    points: list[str] = []
    for at, value in enumerate((*values, None)):
        if value is not None:
            points.append(f"{at * step:.4g},{height - value / (most or 1) * (height - 1):.3g}")
        elif points:
            yield " ".join(points if len(points) > 1 else points * 2)  # a line to the same point is a dot
            points = []


class Chart(TypedDict):
    """Lines of one scale from 0 to `most`, with texts beside them, five times below them, and all values as texts."""

    most: float
    marks: list[str]
    first: list[str]
    second: list[str]
    times: list[int]
    samples: list[tuple[int, list[str]]]
    """Time and values of each sample, the oldest first."""


def rate_chart(times: Sequence[int], first: Sequence[float | None], second: Sequence[float | None]) -> Chart:
    """Return a chart of two rates of bytes."""
    return _chart(times, (first, second), 1024, _rate_text, size_rate_text)


def count_chart(times: Sequence[int], counts: Sequence[int | None]) -> Chart:
    """Return a chart of numbers of records."""
    return _chart(times, (counts,), 1000, count_text, _mark_text)


def _rate_text(rate: float | None) -> str:
    return size_rate_text(rate) or NOT_KNOWN


def _mark_text(value: float) -> str:
    return count_text(int(value)) if value.is_integer() else number_text(value)


def _chart(
    times: Sequence[int],
    values: Sequence[Sequence[Any]],
    units: int,
    text: Callable[[Any], str],
    mark: Callable[[float], str],
) -> Chart:
    most = float(_round_up(max((value or 0 for line in values for value in line), default=0), units))
    lines = [list(_lines(line, WIDTH, HEIGHT, most)) for line in values]
    return {
        "most": most,
        "marks": [mark(most), mark(most / 2), "0"],
        "first": lines[0],
        "second": lines[1] if len(lines) > 1 else [],
        "times": [times[round(at * (len(times) - 1) / 4)] for at in range(5)] if times else [],
        "samples": [(time, [*map(text, row)]) for time, *row in zip(times, *values, strict=True)],
    }


def _round_up(number: float, units: int) -> float:
    """Return the next larger of 1, 2, 5, 10 and so on, in units like 1024."""
    unit = 1.0
    while number >= units * unit:
        unit *= units
    step = unit
    while True:
        for factor in (1, 2, 5):
            if factor * step >= number:
                return factor * step
        step *= 10
