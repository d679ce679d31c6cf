"""Counterparts of Linux's calls for other Unixes. They promise as much, unless noted here, and cost more.

- `preadv_cached` waits for the disk.
- `reserve`, `read_soon` and `lower_thread_priority` do nothing.
- `preallocate` reserves no blocks, as Kafka's `log.preallocate`.
- `resident_bytes` is the largest size so far.
- `thread_timer` counts all threads of the process: macOS shows a thread's time to that thread alone.
- `secret_file` is a file that only its owner can read, removed at once.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from tempfile import NamedTemporaryFile, TemporaryFile
from typing import Any, Final

from pylogbroker.system.memory import GrowingMemory

__all__ = [
    "HAS_EPOLL",
    "MSG_MORE",
    "allocate",
    "anonymous_file",
    "growing_memory",
    "lower_process_priority",
    "lower_thread_priority",
    "open_files_max",
    "preadv_cached",
    "preallocate",
    "read_soon",
    "reserve",
    "resident_bytes",
    "return_free_memory",
    "secret_file",
    "send_file",
    "sync_data",
    "thread_timer",
    "usable_cores",
]

HAS_EPOLL: Final[bool] = False
MSG_MORE: Final[int] = 0

_OPEN_FILES_MAX: Final = 10_240  # macOS accepts no more, although its hard limit is none
_ZEROS: Final = bytes(64 * 1024)
_PEAK_UNIT: Final = 1 if sys.platform == "darwin" else 1024


# files


def send_file(to: int, fd: int, position: int, size: int) -> int:
    return os.write(to, os.pread(fd, size, position))


def preadv_cached(fd: int, buffers: Sequence[Any], position: int) -> int:
    return os.preadv(fd, buffers, position)


def read_soon(fd: int, position: int, size: int) -> None:
    pass


def reserve(fd: int, position: int, size: int) -> None:
    pass


def preallocate(fd: int, size: int) -> None:
    os.ftruncate(fd, size)


def allocate(fd: int, size: int) -> None:
    position = os.fstat(fd).st_size
    while position < size:
        position += os.pwrite(fd, _ZEROS[: size - position], position)


def sync_data(fd: int) -> None:
    os.fsync(fd)


@contextmanager
def secret_file(data: bytes) -> Iterator[str]:
    with NamedTemporaryFile(prefix="pylogbroker-") as file:
        file.write(data)
        file.flush()
        yield file.name


# processes


def anonymous_file() -> int:
    """Return a descriptor of a new file without a name, which goes when it is closed."""
    with TemporaryFile() as file:
        return os.dup(file.fileno())


def open_files_max(most: int) -> int:
    return _OPEN_FILES_MAX if most == resource.RLIM_INFINITY else min(most, _OPEN_FILES_MAX)


def usable_cores() -> int:
    return os.cpu_count() or 1


def resident_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _PEAK_UNIT


def return_free_memory() -> None:
    """Do nothing: the allocator decides."""


def thread_timer(thread: int) -> Callable[[], float]:
    return time.process_time


def lower_thread_priority(niceness: int) -> None:
    pass


def lower_process_priority(pid: int, niceness: int) -> None:
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, niceness)


# memory


class _Bytes:
    """Memory that is replaced, not changed, while a view lives."""

    def __init__(self, size: int) -> None:
        self._memory = bytearray(size)

    def __len__(self) -> int:
        return len(self._memory)

    def view(self) -> memoryview:
        return memoryview(self._memory)

    def resize(self, size: int) -> None:
        more = bytes(size - len(self._memory))
        try:
            self._memory.extend(more)
        except BufferError:  # a view lives
            self._memory = self._memory + more

    def free(self) -> None:
        self._memory = bytearray()


def growing_memory(size: int, most: int) -> GrowingMemory:
    return _Bytes(size)
