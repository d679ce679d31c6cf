"""Formats counts and lists for messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_NAMES_MAX: Final = 10


def counted(count: int, thing: str, things: str = "") -> str:
    """Return a number with its noun; `things` is a plural that does not end in a mere `s`."""
    return f"{count} {thing if count == 1 else things or f'{thing}s'}"


def listed(names: Sequence[str]) -> str:
    others = f" and {len(names) - _NAMES_MAX} others" if len(names) > _NAMES_MAX else ""
    return ", ".join(names[:_NAMES_MAX]) + others
