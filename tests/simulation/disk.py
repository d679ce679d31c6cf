"""Files of brokers: the bytes that were synced would survive a loss of power."""

from __future__ import annotations

import os
import shutil

import attrs


@attrs.define(eq=False)
class SyncedSizes:
    """Takes the place of `os.fsync`; the files are on a memory disk."""

    _sizes: dict[tuple[int, int], int] = attrs.field(factory=dict)

    def synced(self, fd: int) -> None:
        found = os.fstat(fd)
        self._sizes[found.st_dev, found.st_ino] = found.st_size

    def size(self, path: str) -> int:
        """Return the synced part of a file."""
        found = os.stat(path)
        return min(self._sizes.get((found.st_dev, found.st_ino), 0), found.st_size)


def copy_files(directory: str) -> None:
    """Replace a directory by a copy, so that the locks and open files of an ended process are of no account."""
    former = f"{directory}.former"
    os.rename(directory, former)
    shutil.copytree(former, directory)
    shutil.rmtree(former)
