"""What counts as bytes: `memoryview`s of frames, `bytes` read from files; neither is copied to be looked at."""

from __future__ import annotations

from typing import TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview


def view(buffer: Buffer) -> memoryview:
    """`buffer` as a memoryview, whose slices copy nothing."""
    return buffer if type(buffer) is memoryview else memoryview(buffer)
