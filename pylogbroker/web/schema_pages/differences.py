"""Texts of schemas as pages show them, and what differs between two of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final, Literal

import attrs

from pylogbroker.json_text import indented
from pylogbroker.schemas.values import PROTOBUF, Schema

SHOWN_CHARACTERS_MAX: Final = 256 * 1024
LINES_MAX: Final = 2000
"""Lines of a text that is compared: the time grows with their square."""
_AROUND: Final = 4
"""Equal lines that stand around those that differ."""

Mark = Literal["same", "added", "removed", "gap"]


@attrs.frozen
class DiffLine:
    """A line of one of two texts, or a gap with the number of equal lines that are left out."""

    mark: Mark
    text: str


def shown_text(schema: Schema) -> str:
    """Return the text of a schema: JSON on indented lines, with its numbers as they are, and Protobuf as it is."""
    if schema.kind == PROTOBUF:
        return schema.text
    return indented(schema.text, 4 * SHOWN_CHARACTERS_MAX) or schema.text


def difference(before: str, after: str) -> Sequence[DiffLine] | None:
    """Return the lines of two texts that differ, with some around them; None if they are too long. May take long."""
    old, new = before.splitlines(), after.splitlines()
    if max(len(old), len(new)) > LINES_MAX or max(len(before), len(after)) > SHOWN_CHARACTERS_MAX:
        return None
    return [*_lines(old, new)] if old != new else []


def _lines(old: Sequence[str], new: Sequence[str]) -> Iterator[DiffLine]:
    shown = 0
    for group in SequenceMatcher(None, old, new).get_grouped_opcodes(_AROUND):
        first = group[0][3]
        if first > shown:
            yield _gap(first - shown)
        for operation, old_begin, old_end, new_begin, new_end in group:
            if operation == "equal":
                yield from (DiffLine("same", line) for line in new[new_begin:new_end])
            else:
                yield from (DiffLine("removed", line) for line in old[old_begin:old_end])
                yield from (DiffLine("added", line) for line in new[new_begin:new_end])
        shown = group[-1][4]
    if shown < len(new):
        yield _gap(len(new) - shown)


def _gap(count: int) -> DiffLine:
    return DiffLine("gap", f"{count:,} equal line{'s' if count > 1 else ''}")
