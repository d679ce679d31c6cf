"""Disks that fail, for tests: what one call of the operating system does on the files below a directory."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from types import TracebackType
from typing import Any, Final, Self
from unittest import SkipTest
from unittest.mock import patch

import attrs

PAGE = os.sysconf("SC_PAGE_SIZE")
_IS_PORTABLE: Final = bool(os.environ.get("PYLOGBROKER_PORTABLE"))
SYNC_CALL: Final = "fsync" if _IS_PORTABLE else "fdatasync"
"""The call that syncs the records of a segment."""

_LINUX_CALLS: Final = frozenset({"preadv"})


@contextmanager
def broken(call: str, directory: str, fault: Callable[..., Any]) -> Iterator[None]:
    """While the block runs, `fault` is called in place of `os.<call>` for open files below `directory`.

    It is called with the function itself, and its arguments. With portable calls, fsync stands for fdatasync, and tests
    of Linux's other calls are skipped.
    """
    call = SYNC_CALL if call == "fdatasync" else call
    if call in _LINUX_CALLS and _IS_PORTABLE:
        raise SkipTest(f"os.{call} is not called")
    real = getattr(os, call)
    inside = os.path.realpath(directory) + "/"

    def perhaps(fd: int, *arguments: Any) -> Any:
        if os.readlink(f"/proc/self/fd/{fd}").startswith(inside):
            return fault(real, fd, *arguments)
        return real(fd, *arguments)

    with patch.object(os, call, perhaps):
        yield


def failing(code: int) -> Callable[..., Any]:
    """A fault that is an error of that number."""

    def fault(real: Callable[..., Any], *arguments: Any) -> Any:
        raise OSError(code, os.strerror(code))

    return fault


@attrs.define
class PageCache:
    """A page cache that has nothing of the files below a directory in it, until it is read by who may wait.

    Anybody else who would wait fails the test; who asks with RWF_NOWAIT gets what the kernel would give.
    """

    directory: str
    waits: int = 0  # reads that had to wait
    _pages: set[tuple[str, int]] = attrs.field(factory=set)
    _may_wait: bool = False
    _stack: ExitStack = attrs.field(factory=ExitStack)

    def __enter__(self) -> Self:
        self._stack.enter_context(broken("preadv", self.directory, self._preadv))
        self._stack.enter_context(broken("pread", self.directory, self._pread))
        self._stack.enter_context(patch.object(os, "sendfile", partial(self._sendfile, os.sendfile)))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()

    def in_worker(self, call: Callable[[], Any]) -> Any:
        """Return the result of `call`, which may wait for the disk."""
        self._may_wait = True
        try:
            return call()
        finally:
            self._may_wait = False

    def _preadv(self, real: Callable[..., int], fd: int, buffers: Any, position: int, flags: int = 0) -> int:
        size = sum(map(len, buffers))
        if flags & os.RWF_NOWAIT and not self._has(fd, position, size):
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        self._bring_in(fd, position, size)
        return real(fd, buffers, position, flags & ~os.RWF_NOWAIT)

    def _pread(self, real: Callable[..., bytes], fd: int, size: int, position: int) -> bytes:
        self._bring_in(fd, position, size)
        return real(fd, size, position)

    def _sendfile(self, real: Callable[..., int], to: int, fd: int, position: int, size: int) -> int:
        if os.readlink(f"/proc/self/fd/{fd}").startswith(os.path.realpath(self.directory) + "/"):
            self._bring_in(fd, position, size)
        return real(to, fd, position, size)

    def _has(self, fd: int, position: int, size: int) -> bool:
        return self._wanted(fd, position, size) <= self._pages

    def _bring_in(self, fd: int, position: int, size: int) -> None:
        missing = self._wanted(fd, position, size) - self._pages
        if missing:
            assert self._may_wait, f"a read of {size} bytes at {position} of {min(missing)[0]} waits for the disk"
            self.waits += 1
            self._pages |= missing

    def _wanted(self, fd: int, position: int, size: int) -> set[tuple[str, int]]:
        path = os.readlink(f"/proc/self/fd/{fd}")
        return {(path, page) for page in range(position // PAGE, (position + max(size, 1) - 1) // PAGE + 1)}
