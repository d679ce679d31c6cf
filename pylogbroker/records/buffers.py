"""Bytes in memory: `memoryview`s of frames or `bytes` read from files, which are parsed without a copy."""

from __future__ import annotations

from typing import TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview


def view(buffer: Buffer) -> memoryview:
    """Return a memoryview of `buffer`, whose slices copy nothing."""
    return buffer if type(buffer) is memoryview else memoryview(buffer)
