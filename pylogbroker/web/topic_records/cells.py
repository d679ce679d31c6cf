"""Cells of rows: short texts, with matches marked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from functools import cached_property
from typing import Final

import attrs

from pylogbroker.conditions import RecordCondition, Subject
from pylogbroker.conditions.compiler import getter
from pylogbroker.conditions.subject import MISSING
from pylogbroker.conditions.syntax import All, Any, Comparison, Literal, Node, Path
from pylogbroker.web.record_rows import shown
from pylogbroker.web.topic_records.json_tree import json_tree, scalar_text
from pylogbroker.web.topic_records.query import RecordQuery

CELL_CHARACTERS_MAX: Final = 240
_BEFORE_MATCH: Final = 12
_SEARCHED_BYTES_MAX: Final = 64 * 1024
_HEADERS_MAX: Final = 5
_PATH_BYTES_MAX: Final = 64 * 1024
NEEDED_MARKS_MAX: Final = 8


@attrs.frozen
class Piece:
    """Part of a cell's text; `is_marked` for a match."""

    text: str
    is_marked: bool = False


@attrs.frozen
class Cell:
    """`kind` is text, null, or hex; other kinds are names of columns."""

    column: str
    pieces: Sequence[Piece]
    kind: str = "text"
    title: str = ""


@attrs.frozen
class ListedRecord:
    partition: int
    offset: int
    time: str
    title: str
    cells: Sequence[Cell]
    link: str

    @property
    def at(self) -> str:
        return f"{self.partition}:{self.offset}"

    @property
    def key(self) -> str:
        """Key as narrow screens show it, above the value."""
        return next(("".join(piece.text for piece in cell.pieces) for cell in self.cells if cell.column == "key"), "")


@attrs.frozen(slots=False)
class CellMaker:
    """Makes rows for the columns of a query."""

    query: RecordQuery
    columns: Sequence[str | Path]
    condition: RecordCondition | None
    year: int
    """Times of this year stand without it."""

    @cached_property
    def marks(self) -> re.Pattern[str] | None:
        """Pattern of texts to mark: the text that is searched for, and constants of the condition."""
        texts = [self.query.text] if self.query.text else []
        if self.condition is not None:
            texts += constants_of(self.condition.tree)
        marked = sorted(filter(None, dict.fromkeys(texts)), key=len, reverse=True)[:NEEDED_MARKS_MAX]
        return re.compile("|".join(map(re.escape, marked)), re.IGNORECASE) if marked else None

    def row(self, record: Subject) -> ListedRecord:
        time, title = time_texts(record.time, self.year)
        cells = [self._cell(column, record) for column in self.columns if column not in ("time", "place")]
        at = f"{record.partition}:{record.offset}"
        return ListedRecord(record.partition, record.offset, time, title, cells, self.query.link(at=at))

    def _cell(self, column: str | Path, record: Subject) -> Cell:
        if isinstance(column, Path):
            return self._path_cell(column, record)
        if column == "headers":
            named = [f"{name}: {plain(content, 60)}" for name, content in record.headers[:_HEADERS_MAX]]
            more = len(record.headers) - _HEADERS_MAX
            return Cell(column, self._pieces(", ".join(named) + (f", {more} more" if more > 0 else "")))
        if column == "size":
            return Cell(column, (Piece(f"{record.size:,}"),))
        content = record.key if column == "key" else record.value
        if content is None:
            return Cell(column, (Piece("null"),), "null")
        preview = shown(content, "auto", _SEARCHED_BYTES_MAX)
        kind = "hex" if preview["format"] == "hex" else "text"
        if kind == "hex":
            return Cell(column, (Piece(preview["text"][:CELL_CHARACTERS_MAX]),), kind)
        return Cell(column, self._pieces(preview["text"], self.marks))

    def _path_cell(self, path: Path, record: Subject) -> Cell:
        name = str(path)
        column = name.removeprefix("value") or name
        content = record.value if path.field == "value" else record.key
        if path.field in ("value", "key") and path.steps:
            if content is not None and len(content) > _PATH_BYTES_MAX:
                return Cell(column, (Piece("too long"),), "null")
            tree = json_tree(content.decode(errors="replace")) if content else None
            node = tree.part(path.steps) if tree is not None else None
            return Cell(column, () if node is None else self._pieces(scalar_text(node)))
        value = getter(path)(record)
        if value is MISSING:
            return Cell(column, ())
        return Cell(column, (Piece("null"),), "null") if value is None else Cell(column, self._pieces(str(value)))

    @staticmethod
    def _pieces(text: str, marks: re.Pattern[str] | None = None) -> list[Piece]:
        """Return a text from shortly before its first match on, with the matches marked."""
        first = marks.search(text) if marks is not None else None
        begin = max(0, first.start() - _BEFORE_MATCH) if first is not None else 0
        end = begin + CELL_CHARACTERS_MAX
        pieces = [Piece("…")] if begin else []
        at = begin
        for match in marks.finditer(text, begin, end) if marks is not None else ():
            pieces += [Piece(text[at : match.start()]), Piece(match[0], True)]
            at = match.end()
        pieces.append(Piece(text[at:end]))
        if end < len(text):
            pieces.append(Piece("…"))
        return [piece for piece in pieces if piece.text]


def constants_of(node: Node) -> list[str]:
    """Return texts that a match is likely to contain: constants that are compared with == or ~."""
    match node:
        case Comparison("==" | "~", left, right):
            constants = [side.constant for side in (left, right) if isinstance(side, Literal)]
            texts = [str(constant) for constant in constants if isinstance(constant, str | int | Decimal)]
            is_field = any(isinstance(side, Path) and side.field in ("value", "key") for side in (left, right))
            return texts if is_field and not any(isinstance(constant, bool) for constant in constants) else []
        case All(parts) | Any(parts):
            return [text for part in parts for text in constants_of(part)]
    return []


def plain(content: bytes | None, characters_max: int) -> str:
    if content is None:
        return "null"
    text = shown(content, "auto", 4 * characters_max)["text"]
    return text if len(text) <= characters_max else f"{text[:characters_max]}…"


def time_texts(time_ms: int, year: int) -> tuple[str, str]:
    """Return a time in short, and in full with its zone."""
    if time_ms < 0:
        return "no time", "no time"
    try:
        time = datetime.fromtimestamp(time_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(time_ms), f"{time_ms} ms since 1970"
    short = f"{time.day} {time:%b} {time:%H:%M:%S}" if time.year == year else f"{time.day} {time:%b %Y %H:%M:%S}"
    return short, f"{time:%Y-%m-%d %H:%M:%S}.{time_ms % 1000:03} UTC"
