"""Levels of compatibility: which schema must read data of which others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol, Self

LEVELS: Final = (
    *("NONE", "BACKWARD", "FORWARD", "FULL"),
    *("BACKWARD_TRANSITIVE", "FORWARD_TRANSITIVE", "FULL_TRANSITIVE"),
)


class Comparable(Protocol):
    def problems(self, writer: Self) -> list[str]:
        """Return why this schema cannot read data of another one."""


def problems(level: str, new: Comparable, old: Sequence[tuple[int, Comparable]]) -> list[str]:
    """Return why a new schema cannot follow the old ones, given with their versions from the oldest."""
    direction, _, transitive = level.partition("_")
    for number, earlier in reversed(old if transitive else old[-1:]):
        reasons: list[str] = []
        if direction != "NONE" and type(earlier) is not type(new):
            reasons.append("TYPE_CHANGED: schemas of a subject have one schema type")
        else:
            if direction in ("BACKWARD", "FULL"):
                reasons += new.problems(earlier)
            if direction in ("FORWARD", "FULL"):
                reasons += earlier.problems(new)
        if reasons:
            return [*reasons, f"{{oldSchemaVersion: {number}}}", f"{{compatibility: '{level}'}}"]
    return []
