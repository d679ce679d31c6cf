"""Text of the metrics, in Prometheus' text format 0.0.4.

Lines are written directly. Ten thousand partitions have a hundred thousand, for which prometheus-client takes ten times
as long.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import attrs

from pylogbroker.long_loops import give_way
from pylogbroker.metrics.declarations import Family

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_LINES_PER_STEP: Final = 2000
_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def label_text(family: Family, *values: str) -> str:
    """Return the labels of a sample: `{topic="a",partition="0"}`, empty without values."""
    pairs = zip(family.labels, values, strict=True) if values else ()
    text = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in pairs)
    return f"{{{text}}}" if text else ""


@attrs.frozen(eq=False, repr=False)
class Rows:
    """Writes a sample of each of some families with the same labels."""

    _families: Sequence[tuple[Callable[[str], None], str]]

    def write(self, labels: str, *values: int) -> None:
        for (append, name), value in zip(self._families, values, strict=True):
            append(f"{name}{labels} {value}\n")


@attrs.define(eq=False, repr=False)
class Exposition:
    """Lines by family: samples of a family stay together, in whatever order they are read."""

    _lines: dict[Family, list[str]] = attrs.field(factory=dict, init=False)

    def add(self, family: Family, value: float, *labels: str) -> None:
        self.lines(family).append(f"{family.name}{label_text(family, *labels)} {value}\n")

    def lines(self, family: Family) -> list[str]:
        """Return the list of a family's lines, to append to."""
        family_lines = self._lines.get(family)
        if family_lines is None:
            head = f"# HELP {family.name} {family.help}\n# TYPE {family.name} {family.kind}\n"
            family_lines = self._lines[family] = [head]
        return family_lines

    def rows(self, families: Sequence[Family]) -> Rows:
        return Rows([(self.lines(family).append, family.name) for family in families])

    async def encode(self) -> list[bytes]:
        """Return the text in chunks, made in steps."""
        chunks: list[bytes] = []
        for lines in self._lines.values():
            for start in range(0, len(lines), _LINES_PER_STEP):
                chunks.append("".join(lines[start : start + _LINES_PER_STEP]).encode())
                await give_way()
        return chunks
