"""Screen of `pylogbroker top`: what keys choose, and the lines that show it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

import attrs

from pylogbroker.cli.output import cell, escaped
from pylogbroker.cli.top_figures import Figures
from pylogbroker.cli.watching import readable_rate, readable_size
from pylogbroker.features import on_first_use

if TYPE_CHECKING:
    from rich import console as rich_console
    from rich import text as rich_text
else:
    rich_console = on_first_use("rich.console")
    rich_text = on_first_use("rich.text")

#: Columns of each view, and those that narrow terminals lose, the first one first. Names and problems stay.
_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "topics": ("topic", "partitions", "records_per_second", "bytes_per_second", "bytes", "problem"),
    "groups": ("group", "state", "records_per_second", "lag", "lag_per_second", "problem"),
    "brokers": (
        *("broker", "address", "leaders", "replicas", "records_per_second", "bytes_per_second", "bytes", "problem"),
    ),
}
VIEWS: Final = (*_COLUMNS,)
_LEFT_OUT_FIRST: Final = (
    *("replicas", "partitions", "bytes", "leaders", "state", "address"),
    *("bytes_per_second", "lag_per_second", "records_per_second", "lag"),
)
_TITLES: Final = {"records_per_second": "records/s", "bytes_per_second": "bytes/s", "lag_per_second": "lag/s"}
_SORTED_FIRST: Final = {"topics": "records_per_second", "groups": "lag", "brokers": "broker"}
_TEXTS: Final = ("topic", "group", "broker", "address", "state", "problem")
_GAP: Final = 2
_NAME_MAX: Final = 24  # that a name has before columns are left out
_KEYS: Final = "t topics  g groups  b brokers  s sort  / filter  q end"
_BACKSPACES: Final = ("\x7f", "\b")


@attrs.define
class Screen:
    """Choice of what is shown: the view, its order, a filter of names, and what is wrong with the connection."""

    address: str
    view: str = "topics"
    sorted_by: dict[str, str] = attrs.Factory(lambda: dict(_SORTED_FIRST))
    filter: str = ""
    is_filter_typed: bool = False
    failure: str = ""

    def press(self, key: str) -> bool:
        """Take a key; return False for the one that ends the view."""
        if self.is_filter_typed:
            self._type(key)
        elif key == "q":
            return False
        elif key == "/":
            self.is_filter_typed, self.filter = True, ""
        elif key == "s":
            columns = _COLUMNS[self.view]
            self.sorted_by[self.view] = columns[(columns.index(self.sorted_by[self.view]) + 1) % len(columns)]
        else:
            self.view = {view[0]: view for view in VIEWS}.get(key, self.view)
        return True

    def _type(self, key: str) -> None:
        if key in "\r\n":
            self.is_filter_typed = False
        elif key == "\x1b":
            self.is_filter_typed, self.filter = False, ""
        elif key in _BACKSPACES:
            self.filter = self.filter[:-1]
        elif key.isprintable():
            self.filter += key

    def rows(self, figures: Figures) -> list[dict[str, Any]]:
        """Return the rows of the view that the filter leaves, in order: great numbers first, unknown ones last."""
        name, column = _COLUMNS[self.view][0], self.sorted_by[self.view]
        rows = sorted(figures[self.view], key=lambda row: row[name])
        ordered = [row for row in rows if row[column] is not None]
        ordered.sort(key=lambda row: row[column], reverse=column not in _TEXTS)
        unknown = [row for row in rows if row[column] is None]
        return [row for row in [*ordered, *unknown] if self.filter.lower() in str(row[name]).lower()]

    def lines(self, figures: Figures, time: str, width: int) -> list[rich_text.Text]:
        """Return the lines of a frame, none longer than the terminal is wide."""
        head = f"pylogbroker top  {self.address}  {time}  {self.view} by {_title(self.sorted_by[self.view])}"
        if self.failure:
            lines = [rich_text.Text(escaped(self.failure), style="bold red")]
        else:
            lines = [rich_text.Text(escaped(head))]
        prompt = f"/{self.filter}" if self.is_filter_typed or self.filter else _KEYS
        lines += [rich_text.Text(escaped(prompt)), rich_text.Text()]
        lines += _table(_COLUMNS[self.view], self.rows(figures), width)
        for line in lines:
            line.truncate(width, overflow="ellipsis")
        return lines


def _table(columns: Iterable[str], rows: list[dict[str, Any]], width: int) -> list[rich_text.Text]:
    texts = {
        column: [rich_text.Text(_title(column)), *(rich_text.Text(_cell(column, row[column])) for row in rows)]
        for column in columns
    }
    widths = {column: max(text.cell_len for text in cells) for column, cells in texts.items()}
    name = next(iter(widths))
    for column in _LEFT_OUT_FIRST:
        if _total({**widths, name: min(widths[name], _NAME_MAX)}) > width:
            widths.pop(column, None)
    widths[name] = max(1, min(widths[name], width - _total({**widths, name: 0})))
    lines = []
    for number in range(len(rows) + 1):
        line = rich_text.Text()
        for column, size in widths.items():
            text = texts[column][number]
            text.truncate(size, overflow="ellipsis")
            text.align("left" if column in _TEXTS else "right", size)
            if column == "problem" and number:
                text.stylize("bold red")
            line.append(" " * _GAP if line else "").append_text(text)
        lines.append(line)
    return lines


def _total(widths: Mapping[str, int]) -> int:
    return sum(widths.values()) + _GAP * (len(widths) - 1)


def _title(column: str) -> str:
    return _TITLES.get(column, column)


def _cell(column: str, value: Any) -> str:
    if column == "problem":
        return escaped(value or "")
    if column == "bytes":
        value = readable_size(value)
    elif column == "bytes_per_second":
        value = readable_rate(value)
    return escaped(cell(value))


def printed(lines: Iterable[rich_text.Text], width: int, *, colors: bool) -> list[str]:
    """Return lines as the terminal takes them."""
    color_system: Literal["standard"] | None = "standard" if colors else None
    console = rich_console.Console(width=width, force_terminal=colors, highlight=False, color_system=color_system)
    with console.capture() as captured:
        for line in lines:
            console.print(line, no_wrap=True, overflow="crop")
    return captured.get().splitlines()
