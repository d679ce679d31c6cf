"""Files as the log uses them: handles, regions of them, and writes that are whole or did not happen.

A `FileHandle` closes its descriptor when the last reference to it goes.  A segment that is deleted, or whose
descriptor is given back to stay below a limit, only drops its reference; a `FileRegion` on its way to a client
holds another one, so reads that are under way finish.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import itertools
import os
import resource
import threading
from collections.abc import Iterator, Sequence
from typing import Final, Protocol

import attrs

from pylogbroker.errors import PylogbrokerError, StorageFailure

Buffer = bytes | bytearray | memoryview

_fallocate: Final = ctypes.CDLL(None).fallocate
_KEEP_SIZE: Final = 1  # FALLOC_FL_KEEP_SIZE of linux/falloc.h; os.posix_fallocate cannot be told so
_MANY: Final = 100_000  # descriptors, if the process may have any number
_VECTORS: Final = os.sysconf("SC_IOV_MAX")
TRANSIENT_ERRNOS: Final = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENAMETOOLONG, errno.EMLINK}
)
"""Errors that do not mean that a disk has failed: another try, or another name, may succeed."""
DISK_FULL_ERRNOS: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
"""The same, unless they come when data is forced to the disk: what there was no room for then is lost."""
PATH_ERRNOS: Final = frozenset(
    {
        errno.EEXIST, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENOTEMPTY, errno.ELOOP, errno.EACCES,
        errno.EPERM,
    }
)  # fmt: skip
"""Errors that tell of one path, not of the disk it is on."""


@attrs.define(eq=False)
class FileHandle:
    """An open file; closed with its last reference.  `number` is that of no other handle of the process."""

    fd: int
    number: int = attrs.field(factory=itertools.count().__next__, init=False)

    @classmethod
    def open(cls, path: str, flags: int = os.O_RDONLY) -> FileHandle:
        return cls(os.open(path, flags | os.O_CLOEXEC, 0o644))

    def read(self, length: int, position: int) -> bytes:
        """Up to `length` bytes.  Blocks on the disk."""
        return os.pread(self.fd, length, position)

    def read_cached(self, length: int, position: int) -> Buffer:
        """The same if they are all in the page cache; NotCached if they are not, or if the file ends before them."""
        data = bytearray(length)
        try:
            if os.preadv(self.fd, (data,), position, os.RWF_NOWAIT) == length:
                return data
        except BlockingIOError:
            pass
        except OSError as error:
            if error.errno == errno.EOPNOTSUPP:  # a file system without the flag is taken to be fast
                return self.read(length, position)
            raise
        raise NotCached(FileRegion(self, position, length))

    def __del__(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self.fd)


@attrs.define(eq=False)
class FileRegion:
    """`length` bytes of a file from `position` on, to be sent without being looked at.  Any thread may use it."""

    file: FileHandle
    position: int
    length: int
    next_offset: int = -1  # none of the entries in there reaches so far; -1 if they are none
    first_position: int = -1  # in the partition's stream, if its log is one by position

    def __len__(self) -> int:
        return self.length

    def read(self) -> bytes:
        """The bytes themselves.  Blocks on the disk."""
        return read_at(self.file.fd, self.length, self.position)


class NotCached(PylogbrokerError):
    """To go on means to wait for the disk: `region` has to be brought into the page cache first."""

    def __init__(self, region: FileRegion) -> None:
        super().__init__(f"{region.length} bytes at {region.position} are not in the page cache")
        self.region = region


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


def read_cached_file(path: str) -> Buffer | None:
    """The same if it is in the page cache; NotCached if it is not."""
    try:
        handle = FileHandle.open(path)
    except FileNotFoundError:
        return None
    size = os.fstat(handle.fd).st_size
    return handle.read_cached(size, 0) if size else b""


def read_entry(path: str, index: int, size: int, may_wait: bool = True) -> Buffer:
    """The `index`-th of a file's entries of `size` bytes each; nothing if the file does not reach so far.

    NotCached if the caller may not wait for the disk, but would have to.
    """
    try:
        handle = FileHandle.open(path)
    except FileNotFoundError:
        return b""
    raw = (handle.read if may_wait else handle.read_cached)(size, index * size)
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


@attrs.frozen
class DeletedFiles:
    """Files that have been renamed away and wait for a worker."""

    paths: tuple[str, ...]
    size: int

    def unlink(self) -> None:
        """Remove the files.  Blocks on the disk; any thread."""
        for path in self.paths:
            remove(path)


class Releasable(Protocol):
    """Something that can give back what it holds and fetch it again when needed."""

    def release(self) -> None: ...


@attrs.define(eq=False)
class ResourcePool:
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


@attrs.frozen
class Pools:
    """What all logs share: bounds on open descriptors and on the memory of loaded indexes."""

    files: ResourcePool
    indexes: ResourcePool

    @classmethod
    def of(cls, descriptors: int | None = None, index_bytes: int = 64 << 20) -> Pools:
        """By default half of the descriptors that the process may have are for segments."""
        if descriptors is None:
            soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            descriptors = _MANY if soft == resource.RLIM_INFINITY else max(soft // 2, 16)
        return cls(ResourcePool(descriptors), ResourcePool(index_bytes))
