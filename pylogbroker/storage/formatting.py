"""Words for what is told in the log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_MOST_NAMED: Final = 10


def counted(count: int, thing: str) -> str:
    """So many of a thing: 1 segment, 2 segments."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def listed(names: Sequence[str]) -> str:
    """Things by name, but not all if they are many."""
    others = f" and {len(names) - _MOST_NAMED} others" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + others
