"""State of a file, by which a change is noticed."""

from __future__ import annotations

import os

import attrs


@attrs.frozen
class FileState:
    path: str
    identity: tuple[int, int, int]  # inode, size, time of the last change

    @classmethod
    def of(cls, path: str) -> FileState:
        """Look at a file, which may be missing. Blocks."""
        try:
            stat = os.stat(path)
        except OSError:
            return cls(path, (0, 0, 0))
        return cls(path, (stat.st_ino, stat.st_size, stat.st_mtime_ns))
