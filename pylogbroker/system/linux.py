"""Calls of Linux. Functions of `os` are looked up at each call: tests replace them."""

from __future__ import annotations

import ctypes
import mmap
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
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

HAS_EPOLL: Final[bool] = True
MSG_MORE: Final[int] = socket.MSG_MORE

_fallocate: Final = ctypes.CDLL(None).fallocate
_madvise: Final = ctypes.CDLL(None).madvise  # unlike that of `mmap`, it lets other threads run meanwhile
_malloc_trim: Final = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc alone
_KEEP_SIZE: Final = 1  # FALLOC_FL_KEEP_SIZE of linux/falloc.h; os.posix_fallocate has no flags
_OOM_SCORE: Final = "500"
_FREED_SIZE: Final = 4 * 1024 * 1024  # bytes per step


# files


def send_file(to: int, fd: int, position: int, size: int) -> int:
    """Send up to `size` bytes of a file to a socket or file; return how many."""
    return os.sendfile(to, fd, position, size)


def preadv_cached(fd: int, buffers: Sequence[Any], position: int) -> int:
    """Read from the page cache; raise BlockingIOError instead of waiting for the disk.

    A file system without this raises OSError with EOPNOTSUPP.
    """
    return os.preadv(fd, buffers, position, os.RWF_NOWAIT)


def read_soon(fd: int, position: int, size: int) -> None:
    """Let the kernel read bytes into the page cache."""
    os.posix_fadvise(fd, position, size, os.POSIX_FADV_WILLNEED)


def reserve(fd: int, position: int, size: int) -> None:
    """Allocate blocks beyond the file's size, if possible; `os.ftruncate` to the size releases them.

    Otherwise each write searches for free blocks: on ext4 this costs about as much as the copy.
    """
    _fallocate(fd, _KEEP_SIZE, ctypes.c_int64(position), ctypes.c_int64(size))


def preallocate(fd: int, size: int) -> None:
    """Enlarge a segment to `size`, with blocks for it."""
    os.posix_fallocate(fd, 0, size)


def allocate(fd: int, size: int) -> None:
    """Enlarge a small file to `size`, with blocks for it; raise OSError if the disk is too full."""
    os.posix_fallocate(fd, 0, size)


def sync_data(fd: int) -> None:
    """Sync a file, without times that no reader needs. Blocks."""
    os.fdatasync(fd)


@contextmanager
def secret_file(data: bytes) -> Iterator[str]:
    """Yield the path of a file with `data`, here in memory, for a library that reads files alone."""
    descriptor = os.memfd_create("secret")
    try:
        with open(descriptor, "wb", closefd=False) as memory:
            memory.write(data)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


# processes


def anonymous_file() -> int:
    """Return a descriptor of a new file in memory, which goes when it is closed."""
    return os.memfd_create("records", os.MFD_CLOEXEC)


def open_files_max(most: int) -> int:
    """Return the soft limit of open files to ask for, if `most` is the hard one."""
    return most


def usable_cores() -> int:
    """Return the number of cores that the process may use."""
    return len(os.sched_getaffinity(0))


def resident_bytes() -> int:
    """Return the size of the process in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def return_free_memory() -> None:
    """Return memory that C code has freed to the system: Python's larger objects, and SQLite's. Takes milliseconds."""
    if _malloc_trim is not None:
        _malloc_trim(0)


def thread_timer(thread: int) -> Callable[[], float]:
    """Return a function of the processor time that a thread of this process has used, in seconds."""
    clock = time.pthread_getcpuclockid(thread)
    return lambda: time.clock_gettime(clock)


def lower_thread_priority(niceness: int) -> None:
    """Lower the priority of the calling thread."""
    thread = threading.get_native_id()
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, thread, max(niceness, os.getpriority(os.PRIO_PROCESS, thread)))


def lower_process_priority(pid: int, niceness: int) -> None:
    """Lower the priority of a child process; it is killed before the parent when memory runs out."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, niceness)
    with suppress(OSError), open(f"/proc/{pid}/oom_score_adj", "w") as file:
        file.write(_OOM_SCORE)


# memory


class _Mapping:
    """Anonymous mapping of all that it may grow to, of which unwritten pages take no memory.

    The kernel may reject so much, by its settings or a limit of the process. Then the mapping grows: the kernel moves
    its pages, and copies nothing.

    A view may live longer than its user: a thread that looks at another's stack keeps the stack's variables. Memory
    with views is neither moved nor unmapped; the last view unmaps it.
    """

    def __init__(self, size: int, most: int) -> None:
        self._memory: mmap.mmap | None
        try:
            self._memory = _anonymous(most)
        except (OSError, OverflowError):
            self._memory = _anonymous(size)

    def __len__(self) -> int:
        return 0 if self._memory is None else len(self._memory)

    def view(self) -> memoryview:
        return memoryview(self._memory or b"")

    def resize(self, size: int) -> None:
        if self._memory is None:
            raise ValueError("the memory is freed")
        try:
            self._memory.resize(size)
        except BufferError:  # a view lives
            larger = _anonymous(size)
            larger[: len(self._memory)] = memoryview(self._memory)
            self._memory = larger

    def free(self) -> None:
        """Free the memory in steps; other threads that need the process's table of pages wait for one at most."""
        memory, self._memory = self._memory, None
        if memory is not None:
            for start in range(0, len(memory), _FREED_SIZE):
                size = min(_FREED_SIZE, len(memory) - start)
                _madvise(_address_of(memory, start), size, mmap.MADV_DONTNEED)


def _address_of(memory: mmap.mmap, start: int) -> ctypes.c_void_p:
    return ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(memory, start)))


def _anonymous(size: int) -> mmap.mmap:
    return mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def growing_memory(size: int, most: int) -> GrowingMemory:
    """Return memory of at least `size` bytes that can grow to `most`; unwritten pages take no memory."""
    return _Mapping(size, most)
