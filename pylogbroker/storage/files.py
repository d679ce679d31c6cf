"""Files as logs use them: handles, regions, and writes that are complete or did not happen.

A `FileHandle` closes its descriptor with its last reference. A `FileRegion` holds one, so reads outlive the deletion of
a segment or the release of its descriptor.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import resource
import threading
from collections.abc import Iterator, Sequence
from typing import Final, Protocol

import attrs

from pylogbroker.errors import PylogbrokerError, StorageFailure
from pylogbroker.system import anonymous_file, preadv_cached

Buffer = bytes | bytearray | memoryview

_DESCRIPTORS_MAX: Final = 100_000  # of a process without a limit
_VECTORS: Final = os.sysconf("SC_IOV_MAX")
TRANSIENT_ERRNOS: Final = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENAMETOOLONG, errno.EMLINK}
)
"""Errors that are not of the disk: a retry, or another name, may succeed."""
DISK_FULL_ERRNOS: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Transient for a write; fatal for an fsync, since the unwritten pages are lost."""
PATH_ERRNOS: Final = frozenset(
    {
        errno.EEXIST, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENOTEMPTY, errno.ELOOP, errno.EACCES,
        errno.EPERM,
    }
)  # fmt: skip
"""Errors of paths, not of disks."""


@attrs.define(eq=False, repr=False)
class FileHandle:
    """An open file. `number` is unique in the process."""

    fd: int
    number: int = attrs.field(factory=itertools.count().__next__, init=False)

    @classmethod
    def open(cls, path: str, flags: int = os.O_RDONLY) -> FileHandle:
        return cls(os.open(path, flags | os.O_CLOEXEC, 0o644))

    def read(self, length: int, position: int) -> bytes:
        """Blocks. Returns fewer bytes at the end of the file."""
        return os.pread(self.fd, length, position)

    def read_cached(self, length: int, position: int) -> Buffer:
        """Raise NotCached unless all bytes are in the page cache."""
        data = bytearray(length)
        try:
            if preadv_cached(self.fd, (data,), position) == length:
                return data
        except BlockingIOError:
            pass
        except OSError as error:
            if error.errno == errno.EOPNOTSUPP:  # a file system without the flag: assume that it is fast
                return self.read(length, position)
            raise
        raise NotCached(FileRegion(self, position, length))

    def __del__(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self.fd)


@attrs.define(eq=False, repr=False)
class FileRegion:
    """Part of a file, sent unread. Any thread may use it."""

    file: FileHandle
    position: int
    length: int
    next_offset: int = -1  # above the offsets of all records in it; -1 without whole batches
    first_position: int = -1  # of a byte-addressed log: in the partition's stream

    def __len__(self) -> int:
        return self.length

    def read(self) -> bytes:
        return read_at(self.file.fd, self.length, self.position)


def region_of(data: Buffer, next_offset: int) -> FileRegion:
    """Return a region of a file in memory with these bytes."""
    handle = FileHandle(anonymous_file())
    write_at(handle.fd, [data], 0, len(data))
    return FileRegion(handle, 0, len(data), next_offset)


class NotCached(PylogbrokerError):
    """A call would wait for the disk, and its caller did not pass `may_wait`.

    Bring `region` into the page cache, then repeat the call.
    """

    def __init__(self, region: FileRegion) -> None:
        super().__init__(f"{region.length} bytes at {region.position} are not in the page cache")
        self.region = region


def read_at(fd: int, length: int, position: int) -> bytes:
    """Raise StorageFailure if the file is shorter."""
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
    """Write `chunks` of `size` bytes; raise OSError unless all are written."""
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
    rest = list(chunks)
    for index, chunk in enumerate(rest):
        if written < len(chunk):
            rest[index] = memoryview(chunk)[written:]
            return rest[index:]
        written -= len(chunk)
    return []


@contextlib.contextmanager
def opened(path: str, flags: int = os.O_RDONLY) -> Iterator[int]:
    fd = os.open(path, flags | os.O_CLOEXEC, 0o644)
    try:
        yield fd
    finally:
        os.close(fd)


def read_file(path: str) -> bytes | None:
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
    """Raise NotCached instead of waiting for the disk."""
    try:
        handle = FileHandle.open(path)
    except FileNotFoundError:
        return None
    size = os.fstat(handle.fd).st_size
    return handle.read_cached(size, 0) if size else b""


def read_entry(path: str, index: int, size: int, may_wait: bool = True) -> Buffer:
    """Return the `index`-th entry of `size` bytes; empty if the file is too short."""
    try:
        handle = FileHandle.open(path)
    except FileNotFoundError:
        return b""
    raw = (handle.read if may_wait else handle.read_cached)(size, index * size)
    return raw if len(raw) == size else b""


def write_file_at(path: str, data: Buffer, position: int) -> None:
    with opened(path, os.O_WRONLY | os.O_CREAT) as fd:
        write_at(fd, [data], position, len(data))


def truncate(path: str, size: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.truncate(path, size)


def replace_file(path: str, data: Buffer, *, sync_name: bool = True) -> None:
    """Replace a file's content atomically. Blocks.

    Without `sync_name`, the old content may come back after a loss of power.
    """
    temporary = path + ".tmp"
    with opened(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as fd:
        write_at(fd, [data], 0, len(data))
        os.fsync(fd)
    os.replace(temporary, path)
    if sync_name:
        sync_file(os.path.dirname(path))


def sync_file(path: str) -> None:
    """Sync a file, or the names in a directory. Blocks. Ignores a missing file."""
    with contextlib.suppress(FileNotFoundError), opened(path) as fd:
        os.fsync(fd)


def remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


@attrs.frozen
class DeletedFiles:
    """Files renamed to `.deleted`, for a worker to unlink."""

    paths: tuple[str, ...]
    size: int

    def unlink(self) -> None:
        """Blocks; any thread."""
        for path in self.paths:
            remove(path)


class Releasable(Protocol):
    def release(self) -> None: ...


@attrs.define(eq=False, repr=False)
class ResourcePool:
    """Bounds the total that members hold (descriptors, bytes of indexes); the oldest release first.

    For the reactor's thread only, but several threads may open logs.
    """

    limit: int
    held: int = 0
    _members: dict[Releasable, int] = attrs.field(factory=dict)
    _lock: threading.RLock = attrs.field(factory=threading.RLock)

    def admit(self, member: Releasable, weight: int = 1) -> None:
        """Record that `member` holds `weight`; older members release to keep the limit."""
        with self._lock:
            self.forget(member)
            while self._members and self.held + weight > self.limit:
                oldest = next(iter(self._members))
                self.forget(oldest)
                oldest.release()
            self._members[member] = weight
            self.held += weight

    def forget(self, member: Releasable) -> None:
        with self._lock:
            self.held -= self._members.pop(member, 0)


@attrs.frozen
class Pools:
    files: ResourcePool
    indexes: ResourcePool

    @classmethod
    def of(cls, descriptors: int | None = None, index_bytes: int = 64 << 20) -> Pools:
        if descriptors is None:
            soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            descriptors = _DESCRIPTORS_MAX if soft == resource.RLIM_INFINITY else max(soft // 2, 16)
        return cls(ResourcePool(descriptors), ResourcePool(index_bytes))
