"""Faults of a broker that programs are tested with, as the page uses them. Their code is above this package."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class ListedFault(Protocol):
    """Fault that is not removed; its text describes it."""

    @property
    def number(self) -> int: ...
    @property
    def hits(self) -> int: ...
    @property
    def is_spent(self) -> bool:
        """Later requests pass."""

    def release(self) -> None:
        """Let held requests go on, and later ones pass."""

    def remove(self) -> None:
        """Let later requests pass, and held ones go on."""


class FaultPort(Protocol):
    def listed(self) -> Sequence[ListedFault]:
        """Return all faults, also those that the program under test added."""

    def add(self, *arguments: Any, **fields: Any) -> ListedFault:
        """Add a fault; raise ValueError for wrong fields."""
