"""Interface of memory that grows."""

from __future__ import annotations

from typing import Protocol


class GrowingMemory(Protocol):
    def __len__(self) -> int: ...

    def view(self) -> memoryview:
        """Return the memory. Release the view before `resize`: with a living view, that copies."""

    def resize(self, size: int) -> None:
        """Enlarge the memory; views of before may show what it was."""

    def free(self) -> None:
        """Free the memory, in any thread; what living views show is lost."""
