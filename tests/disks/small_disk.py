"""A small file system in memory, that can fill up and go away, for brokers in a mount namespace of their own.

    holder:  unshare, mount the file system, bind it to the directory that the brokers use, wait
    broker:  enters the holder's namespace; it may end and be started again

Nothing of it is seen outside of the namespace, nor left when the holder ends. Who is not root maps itself to be.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.line_process import LineProcess, ProcessFailed

_AS_ROOT = ["--mount", "--propagation=private"]
_MAPPED = ["--user", "--map-root-user", *_AS_ROOT]
_MOUNT_ERROR = (
    "these tests need to mount a file system: as root with CAP_SYS_ADMIN, or in a user namespace; neither works"
)


class SmallDisk:
    """A tmpfs of so many bytes at `path`, for those who are started with `prefix`."""

    def __init__(self, directory: Path, size: int) -> None:
        self.path, self._kept = directory / "small", directory / "kept"
        for place in (self.path, self._kept):
            place.mkdir(parents=True)
        mount = f"mount -t tmpfs -o size={size} small {shlex.quote(str(self._kept))} && {self._bind}"
        self._mapped = False
        try:
            self._hold(_AS_ROOT, mount)
        except ProcessFailed:
            self._mapped = True
            try:
                self._hold(_MAPPED, mount)
            except ProcessFailed as error:
                raise RuntimeError(f"{_MOUNT_ERROR}: {error}") from error

    def _hold(self, namespaces: list[str], mount: str) -> None:
        self._holder = LineProcess(["unshare", *namespaces, "sh", "-c", f"{mount} && echo mounted && exec cat"])
        try:
            self._holder.expect("^mounted$")
        except ProcessFailed:
            self._holder.kill()
            raise

    @property
    def _bind(self) -> str:
        return f"mount --bind {shlex.quote(str(self._kept))} {shlex.quote(str(self.path))}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._holder.kill()

    @property
    def prefix(self) -> list[str]:
        """Prefix of a command that runs where the file system is mounted."""
        user = ["--user", "--preserve-credentials"] if self._mapped else []
        return ["nsenter", f"--target={self._holder.pid}", "--mount", *user, f"--wd={os.getcwd()}", "--"]

    @property
    def content(self) -> Path:
        """Content of the file system, seen from outside, whether it is mounted or not."""
        return Path(f"/proc/{self._holder.pid}/root{self._kept}")

    def vanish(self) -> None:
        """Unmount it, as if somebody had pulled the plug; who has files open keeps them."""
        self._run(f"umount --lazy {shlex.quote(str(self.path))}")

    def come_back(self) -> None:
        """Mount it again."""
        self._run(self._bind)

    def _run(self, script: str) -> None:
        with LineProcess([*self.prefix, "sh", "-c", script]) as process:
            assert process.wait() == 0, process.lines
