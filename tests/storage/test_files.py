"""Handles, regions, whole writes, and the pool that bounds what is open."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylogbroker.errors import StorageFailure
from pylogbroker.storage import files
from pylogbroker.storage.files import FileHandle, FileRegion, NotCached, ResourcePool, read_at, replace_file, write_at


class ShortWrites:
    """`os.pwritev` that writes at most so many bytes per call."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.calls = 0

    def __call__(self, fd: int, chunks: list[bytes], position: int) -> int:
        self.calls += 1
        return os.pwrite(fd, b"".join(map(bytes, chunks))[: self.most], position)


@given(st.lists(st.binary(max_size=20), max_size=8), st.integers(1, 30))
def test_short_writes_are_continued(tmp_path_factory: pytest.TempPathFactory, chunks: list[bytes], most: int) -> None:
    path = tmp_path_factory.mktemp("files") / "file"
    handle = FileHandle.open(str(path), os.O_RDWR | os.O_CREAT)
    whole = b"".join(chunks)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "pwritev", ShortWrites(most))
        write_at(handle.fd, chunks, 3, len(whole))
    assert path.read_bytes() == (b"\0\0\0" + whole if whole else b"")


def test_more_chunks_than_one_call_takes(tmp_path: Path) -> None:
    chunks = [b"%d," % number for number in range(3000)]
    handle = FileHandle.open(str(tmp_path / "file"), os.O_RDWR | os.O_CREAT)
    write_at(handle.fd, chunks, 0, len(b"".join(chunks)))
    assert (tmp_path / "file").read_bytes() == b"".join(chunks)


def test_a_write_that_writes_nothing_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handle = FileHandle.open(str(tmp_path / "file"), os.O_RDWR | os.O_CREAT)
    monkeypatch.setattr(os, "pwritev", ShortWrites(0))
    with pytest.raises(OSError, match="nothing was written"):
        write_at(handle.fd, [b"abc"], 0, 3)


def test_a_region_outlives_the_name_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    region = FileRegion(FileHandle.open(str(path)), 2, 5)
    path.unlink()
    assert len(region) == 5
    assert region.read() == b"23456"


def test_the_descriptor_closes_with_the_last_region(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    handle = FileHandle.open(str(tmp_path / "file"))
    fd, region = handle.fd, FileRegion(handle, 0, 1)
    del handle
    assert os.fstat(fd).st_size == 1
    del region
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(fd)


def test_reading_beyond_the_end_is_a_storage_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    handle = FileHandle.open(str(tmp_path / "file"))
    assert read_at(handle.fd, 3, 0) == b"abc"
    with pytest.raises(StorageFailure):
        read_at(handle.fd, 4, 0)


def test_replacing_leaves_the_old_content_when_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    replace_file(str(path), b"old")

    def fail(fd: int) -> None:
        raise OSError(errno.EIO, "I/O error")

    monkeypatch.setattr(files.os, "fsync", fail)
    with pytest.raises(OSError, match="I/O error"):
        replace_file(str(path), b"new")
    assert path.read_bytes() == b"old"


class Member:
    def __init__(self) -> None:
        self.released = 0

    def release(self) -> None:
        self.released += 1


def test_the_pool_takes_back_from_the_oldest() -> None:
    pool = ResourcePool(10)
    first, second, third = Member(), Member(), Member()
    pool.admit(first, 4)
    pool.admit(second, 4)
    pool.admit(third, 5)
    assert [first.released, second.released, third.released] == [1, 0, 0]
    assert pool.held == 9
    pool.forget(second)
    pool.admit(first, 5)
    assert [first.released, second.released, third.released] == [1, 0, 0]
    assert pool.held == 10


def test_a_member_too_large_for_the_pool_is_alone_in_it() -> None:
    pool = ResourcePool(10)
    small, large = Member(), Member()
    pool.admit(small, 1)
    pool.admit(large, 20)
    assert (small.released, large.released, pool.held) == (1, 0, 20)


@pytest.mark.parametrize(("known", "cached"), [(True, True), (True, False), (False, False)])
def test_a_file_system_that_reports_cached_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: bool, cached: bool
) -> None:
    """Files of tests may be in memory, where the flag is unknown: here it is answered as a disk's file system does."""

    def read_now(fd: int, buffers: list[bytearray], position: int, flags: int) -> int:
        assert flags == os.RWF_NOWAIT
        if not known:
            raise OSError(errno.EOPNOTSUPP, "")
        if not cached:
            raise BlockingIOError(errno.EAGAIN, "")
        return real(fd, buffers, position)

    real = os.preadv
    monkeypatch.setattr(os, "preadv", read_now)
    (tmp_path / "file").write_bytes(b"0123456789")
    handle = FileHandle.open(str(tmp_path / "file"))
    if cached or not known:
        assert bytes(handle.read_cached(4, 3)) == b"3456"
    else:
        with pytest.raises(NotCached):
            handle.read_cached(4, 3)
