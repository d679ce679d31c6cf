"""Files as the log uses them: handles, regions of them, and writes that are whole or did not happen.

A `FileHandle` closes its descriptor when the last reference to it goes.  A segment that is deleted, or whose
descriptor is given back to stay below a limit, only drops its reference; a `FileRegion` on its way to a client
holds another one, so reads that are under way finish.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import threading
from collections.abc import Iterator, Sequence
from typing import Final, Protocol

import attrs

from pylogbroker.errors import StorageFailure

Buffer = bytes | bytearray | memoryview

_fallocate: Final = ctypes.CDLL(None).fallocate
_KEEP_SIZE: Final = 1  # FALLOC_FL_KEEP_SIZE of linux/falloc.h; os.posix_fallocate cannot be told so
_VECTORS: Final = os.sysconf("SC_IOV_MAX")
PASSING: Final = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENAMETOOLONG, errno.EMLINK}
)
"""Errors that do not mean that a disk has failed: another try, or another name, may succeed."""
NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
"""The same, unless they come when data is forced to the disk: what there was no room for then is lost."""
CONFINED: Final = frozenset(
    {
        errno.EEXIST, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENOTEMPTY, errno.ELOOP, errno.EACCES,
        errno.EPERM,
    }
)  # fmt: skip
"""Errors that tell of one path, not of the disk it is on."""


@attrs.define(eq=False)
class FileHandle:
    """An open file; closed with its last reference."""

    fd: int

    @classmethod
    def open(cls, path: str, flags: int = os.O_RDONLY) -> FileHandle:
        return cls(os.open(path, flags | os.O_CLOEXEC, 0o644))

    def __del__(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self.fd)


@attrs.define(eq=False)
class FileRegion:
    """`length` bytes of a file from `position` on, to be sent without being looked at.  Any thread may use it."""

    file: FileHandle
    position: int
    length: int

    def __len__(self) -> int:
        return self.length

    def read(self) -> bytes:
        """The bytes themselves.  Blocks on the disk."""
        return read_at(self.file.fd, self.length, self.position)


def read_at(fd: int, length: int, position: int) -> bytes:
    """Exactly `length` bytes; StorageFailure if the file does not hold them."""
    data = os.pread(fd, length, position)
    if len(data) == length:
        return data
    parts = [data]
    while data and (missing := length - sum(map(len, parts))):
        data = os.pread(fd, missing, position + length - missing)
        parts.append(data)
    whole = b"".join(parts)
    if len(whole) != length:
        raise StorageFailure(f"{length} bytes at {position} expected, the file has {len(whole)}")
    return whole


def write_at(fd: int, chunks: Sequence[Buffer], position: int, size: int) -> None:
    """Write `chunks`, `size` bytes together, at `position`; OSError if they don't all get there."""
    if len(chunks) <= _VECTORS:
        written = os.pwritev(fd, chunks, position)
        if written == size:
            return
        chunks = _rest(chunks, written)
        position += written
    while chunks:
        written = os.pwritev(fd, chunks[:_VECTORS], position)
        if not written:
            raise OSError(errno.EIO, "nothing was written")
        chunks = _rest(chunks, written)
        position += written


def _rest(chunks: Sequence[Buffer], written: int) -> list[Buffer]:
    """What remains of `chunks` after their first `written` bytes."""
    rest = list(chunks)
    for index, chunk in enumerate(rest):
        if written < len(chunk):
            rest[index] = memoryview(chunk)[written:]
            return rest[index:]
        written -= len(chunk)
    return []


@contextlib.contextmanager
def opened(path: str, flags: int = os.O_RDONLY) -> Iterator[int]:
    """A descriptor for the time of a `with` block."""
    fd = os.open(path, flags | os.O_CLOEXEC, 0o644)
    try:
        yield fd
    finally:
        os.close(fd)


def read_file(path: str) -> bytes | None:
    """A small file's content; None if there is no such file."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        size = os.fstat(fd).st_size
        return read_at(fd, size, 0) if size else b""
    finally:
        os.close(fd)


def read_entry(path: str, index: int, size: int) -> bytes:
    """The `index`-th of a file's entries of `size` bytes each; nothing if the file does not reach so far."""
    try:
        with opened(path) as fd:
            raw = os.pread(fd, size, index * size)
    except FileNotFoundError:
        return b""
    return raw if len(raw) == size else b""


def write_file_at(path: str, data: Buffer, position: int) -> None:
    """Write into a file, made if there is none."""
    with opened(path, os.O_WRONLY | os.O_CREAT) as fd:
        write_at(fd, [data], position, len(data))


def truncate(path: str, size: int) -> None:
    """Cut a file; one that is not there is already as short as can be."""
    with contextlib.suppress(FileNotFoundError):
        os.truncate(path, size)


def replace_file(path: str, data: Buffer, *, sync_name: bool = True) -> None:
    """Give a file new content at once: a reader, or a restart, sees the old or the new one, never a part.

    Blocks on the disk.  After a crash of the machine it may be the old one unless the name, too, is synced.
    """
    temporary = path + ".tmp"
    with opened(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as fd:
        write_at(fd, [data], 0, len(data))
        os.fsync(fd)
    os.replace(temporary, path)
    if sync_name:
        sync_file(os.path.dirname(path))


def reserve(fd: int, position: int, length: int) -> None:
    """Have blocks ready for writes from `position` on; the file's size stays, and it may be that nothing is done.

    Spares each write the search for free blocks, which for ext4 costs about as much as the copying.  `os.ftruncate` to
    the file's size gives the blocks back.
    """
    _fallocate(fd, _KEEP_SIZE, ctypes.c_int64(position), ctypes.c_int64(length))


def sync_file(path: str) -> None:
    """Force a file, or the names in a directory, to the disk.  Blocks.  What is gone needs nothing."""
    with contextlib.suppress(FileNotFoundError), opened(path) as fd:
        os.fsync(fd)


def remove(path: str) -> None:
    """Remove a file that may be gone already."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


class Releasable(Protocol):
    """Something that can give back what it holds and fetch it again when needed."""

    def release(self) -> None: ...


@attrs.define(eq=False)
class Pool:
    """Bounds what is held at once (descriptors, bytes of indexes): who came first gives back first.

    Members are used, and so give back, on the reactor's thread only, but logs may be opened by several threads.
    """

    limit: int
    held: int = 0
    _members: dict[Releasable, int] = attrs.field(factory=dict)
    _lock: threading.RLock = attrs.field(factory=threading.RLock)

    def admit(self, member: Releasable, weight: int = 1) -> None:
        """Let `member` hold `weight`; older members give back what is too much."""
        with self._lock:
            self.forget(member)
            while self._members and self.held + weight > self.limit:
                oldest = next(iter(self._members))
                self.forget(oldest)
                oldest.release()
            self._members[member] = weight
            self.held += weight

    def forget(self, member: Releasable) -> None:
        """`member` holds nothing any more."""
        with self._lock:
            self.held -= self._members.pop(member, 0)
