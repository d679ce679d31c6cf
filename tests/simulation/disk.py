"""Files of brokers. After a loss of power only synced bytes are certain; the end of a process alone loses none."""

from __future__ import annotations

import os
import random
import shutil

import attrs


@attrs.define(eq=False)
class SyncedSizes:
    """Takes the place of `os.fsync`; the files are on a memory disk. Names are on the disk at once."""

    _sizes: dict[tuple[int, int], int] = attrs.field(factory=dict)

    def synced(self, fd: int) -> None:
        self._note(os.fstat(fd), None)

    def _note(self, found: os.stat_result, size: int | None) -> None:
        self._sizes[found.st_dev, found.st_ino] = found.st_size if size is None else size

    def _size(self, found: os.stat_result) -> int:
        """Return the synced part of a file."""
        return min(self._sizes.get((found.st_dev, found.st_ino), 0), found.st_size)

    def end_process(self, directory: str, power_loss: random.Random | None) -> None:
        """Replace a directory by a copy, so that locks and open files of the ended process are of no account.

        After a loss of power the random source decides how much of the unsynced bytes is there.
        """
        former = f"{directory}.former"
        os.rename(directory, former)
        shutil.copytree(former, directory)
        for parent, directories, names in os.walk(former):
            directories.sort()
            for name in sorted(names):
                self._copied(f"{parent}/{name}", f"{directory}{parent.removeprefix(former)}/{name}", power_loss)
        shutil.rmtree(former)

    def _copied(self, former: str, path: str, power_loss: random.Random | None) -> None:
        found = os.stat(former)
        synced = self._size(found)
        self._sizes.pop((found.st_dev, found.st_ino), None)
        if power_loss is not None and synced < found.st_size:
            kept = synced if power_loss.random() < 0.5 else power_loss.randint(synced, found.st_size)
            os.truncate(path, kept)
            synced = kept
        self._note(os.stat(path), synced)
