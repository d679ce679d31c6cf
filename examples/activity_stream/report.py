"""Report on the files: `report.html` with plots, and `figures.json`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from rich import filesize

from examples.activity_stream.files import Files

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST: Final = 12  # pages shown
_COLOUR: Final = "#2f6f8f"

Row = tuple[Any, ...]


@attrs.frozen
class Found:
    """Data of the report."""

    figures: dict[str, Any]
    views_by_hour: Sequence[Row]
    visits_by_hour: Sequence[Row]
    pages: Sequence[Row]
    requests_by_visit: Sequence[Row]


def find(files: Files) -> Found:
    """Compute the report's data."""
    lines, views, visits = files.lines, files.views, files.visits
    read = lines.filter("time IS NOT NULL")
    seconds = fn.unix_timestamp("end") - fn.unix_timestamp("start")
    figures = {
        **_one(
            lines.filter("key IS NOT NULL"),
            lines=fn.count("*"),
            unreadable=fn.count_if(fn.col("time").isNull()),
        ),
        **_one(
            read,
            clients=fn.countDistinct("client"),
            bytes=_sum("bytes"),
            first=fn.min("time").cast("string"),
            last=fn.max("time").cast("string"),
            errors=fn.count_if(fn.col("status") >= 400),
        ),
        **_one(views, page_views=_sum("views"), pages=fn.countDistinct("page")),
        **_one(
            visits,
            visits=fn.count("*"),
            visitors=fn.countDistinct("client"),
            longest_visit_seconds=fn.max(seconds),
            requests_per_visit=fn.round(fn.avg("requests"), 2),
        ),
    }
    per_page = views.groupBy("page").agg(fn.sum("views").alias("views"))
    return Found(
        figures,
        _rows(_by_hour(views, "minute", fn.sum("views"))),
        _rows(_by_hour(visits, "start", fn.count("*"))),
        _rows(per_page.orderBy(fn.desc("views"), "page").limit(_MOST)),
        _rows(visits.groupBy("requests").count().orderBy("requests")),
    )


def write(found: Found, directory: Path, log: str) -> Path:
    """Write the report about the file `log`; return the page's path."""
    directory.mkdir(parents=True, exist_ok=True)
    plots: dict[str, Callable[[Axes], None]] = {
        "Views of pages in each hour": lambda axes: _bars_in_time(axes, found.views_by_hour),
        "Visits that began in each hour": lambda axes: _bars_in_time(axes, found.visits_by_hour),
        "The pages that were seen most": lambda axes: _bars_across(axes, found.pages),
        "Visits by their number of requests": lambda axes: _steps(axes, found.requests_by_visit),
    }
    names = [f"plot-{number}.svg" for number in range(1, len(plots) + 1)]
    for name, draw in zip(names, plots.values(), strict=True):
        _plot(directory / name, draw)
    (directory / "figures.json").write_text(json.dumps(found.figures, indent=2) + "\n")
    page = directory / "report.html"
    page.write_text(_html(found, log, dict(zip(plots, names, strict=True))))
    return page


# -- figures -----------------------------------------------------------------------------------------------------------


def _one(frame: DataFrame, **columns: Any) -> dict[str, Any]:
    """Return several aggregates of all rows."""
    [row] = frame.agg(*(column.alias(name) for name, column in columns.items())).collect()
    return dict(row.asDict())


def _sum(name: str) -> Column:
    return fn.coalesce(fn.sum(name), fn.lit(0))  # null without rows


def _by_hour(frame: DataFrame, time: str, count: Any) -> DataFrame:
    hour = fn.date_trunc("hour", time).cast("timestamp_ntz")  # avoids conversion to the local time zone
    return frame.groupBy(hour.alias("hour")).agg(count).orderBy("hour")


def _rows(frame: DataFrame) -> list[Row]:
    return [tuple(row) for row in frame.collect()]


# -- plots -------------------------------------------------------------------------------------------------------------


def _plot(path: Path, draw: Callable[[Axes], None]) -> None:
    from matplotlib.figure import Figure  # takes a second

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    draw(axes)
    figure.savefig(path)


def _bars_in_time(axes: Axes, rows: Sequence[Row]) -> None:
    axes.bar([hour for hour, _ in rows], [count for _, count in rows], width=1 / 24, align="edge", color=_COLOUR)
    axes.tick_params("x", rotation=30)
    axes.set_xlabel("UTC")


def _bars_across(axes: Axes, rows: Sequence[Row]) -> None:
    places = range(len(rows))
    axes.barh(places, [count for _, count in rows], color=_COLOUR)
    axes.set_yticks(places, [_short(name) for name, _ in rows])
    axes.invert_yaxis()


def _steps(axes: Axes, rows: Sequence[Row]) -> None:
    axes.scatter([requests for requests, _ in rows], [count for _, count in rows], color=_COLOUR, s=14)
    axes.set(xscale="log", yscale="log", xlabel="requests", ylabel="visits")


def _short(name: str) -> str:
    shown = name if len(name) <= 48 else f"{name[:24]}...{name[-20:]}"
    return shown.replace("$", r"\$")  # $ would begin a formula


# -- the page ----------------------------------------------------------------------------------------------------------

_PAGE: Final = """<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<title>Activity stream</title>
<style>
body {{ font: 16px/1.5 sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #223 }}
td {{ padding: 0 1.5rem 0 0 }} td + td {{ text-align: right }} img {{ width: 100% }}
</style>
<h1>Activity stream</h1>
<p>From the log file <code>{log}</code>. All times are in UTC.</p>
<table>
{rows}
</table>
{plots}
</html>
"""


def _html(found: Found, log: str, plots: dict[str, str]) -> str:
    rows = [f"<tr><td>{name.replace('_', ' ')}<td>{_shown(name, figure)}" for name, figure in found.figures.items()]
    images = [f'<h2>{escape(title)}</h2>\n<img src="{name}" alt="">' for title, name in plots.items()]
    return _PAGE.format(log=escape(log), rows="\n".join(rows), plots="\n".join(images))


def _shown(name: str, figure: Any) -> str:
    if name == "bytes":
        return f"{filesize.decimal(figure)} ({figure:,})"
    if name in ("first", "last") and figure is not None:
        return f"{escape(figure)} UTC"
    return f"{figure:,}" if isinstance(figure, int | float) else escape(str(figure))
