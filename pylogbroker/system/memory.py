"""Interface of memory that grows."""

from __future__ import annotations

from typing import Protocol


class GrowingMemory(Protocol):
    def __len__(self) -> int: ...

    def view(self) -> memoryview:
        """Return the memory; release the view before `resize` and `free`."""

    def resize(self, size: int) -> None: ...

    def free(self) -> None:
        """Free the memory; any thread."""
