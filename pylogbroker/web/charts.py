"""Lines of a chart, as SVG wants them: the page's policy forbids scripts and styles within the HTML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypedDict

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
    """Lines of one scale from 0 to `most`, and five times below them."""

    most: float
    first: list[str]
    second: list[str]
    times: list[int]


def chart(
    times: Sequence[int], first: Sequence[float | None], second: Sequence[float | None] = (), units: int = 1024
) -> Chart:
    """Return a chart, whose scale ends with a round number of bytes, or of records if `units` is 1000."""
    most = _round_up(max((value or 0 for value in (*first, *second)), default=0), units)
    marks = [times[round(at * (len(times) - 1) / 4)] for at in range(5)] if times else []
    return {
        "most": most,
        "first": list(_lines(first, WIDTH, HEIGHT, most)),
        "second": list(_lines(second, WIDTH, HEIGHT, most)),
        "times": marks,
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
