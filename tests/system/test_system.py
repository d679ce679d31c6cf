"""Calls of Linux and their portable counterparts do the same to files, sockets and memory."""

from __future__ import annotations

import os
import resource
import select
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pylogbroker import system
from pylogbroker.client.sync import background
from pylogbroker.net.poller import EagerPoller, make_eager, others_wait
from pylogbroker.system import linux, portable

pytestmark = pytest.mark.parametrize("calls", [linux, portable])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(200)))
    return path


def test_calls_have_the_same_names(calls: ModuleType) -> None:
    assert set(calls.__all__) == set(linux.__all__)
    assert all(hasattr(system, name) for name in calls.__all__)


def test_processor_time_of_a_thread(calls: ModuleType) -> None:
    timer = calls.thread_timer(threading.get_ident())
    before, start = timer(), time.thread_time()
    while time.thread_time() < start + 0.05:
        pass
    assert timer() - before >= 0.049


def test_a_part_of_a_file_is_sent_until_the_socket_is_full(calls: ModuleType, file: Path) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, file.open("rb") as opened:
        ours.setblocking(False)
        assert calls.send_file(ours.fileno(), opened.fileno(), 10, 5) == 5
        assert theirs.recv(100) == bytes(range(10, 15))
        assert calls.send_file(ours.fileno(), opened.fileno(), 190, 50) == 10
        assert calls.send_file(ours.fileno(), opened.fileno(), 200, 50) == 0
        with suppress(BlockingIOError):
            while True:
                calls.send_file(ours.fileno(), opened.fileno(), 0, 200)


def test_cached_bytes_are_read(calls: ModuleType, file: Path) -> None:
    data = bytearray(5)
    with file.open("rb") as opened:
        calls.read_soon(opened.fileno(), 0, 200)
        try:
            count = calls.preadv_cached(opened.fileno(), [data], 198)
        except OSError as error:
            pytest.skip(f"this file system has no page cache: {error}")
    assert (count, data[:2]) == (2, bytes((198, 199)))


def test_reserved_blocks_leave_the_size_alone(calls: ModuleType, file: Path) -> None:
    with file.open("r+b") as opened:
        calls.reserve(opened.fileno(), 200, 5000)
        calls.sync_data(opened.fileno())
    assert file.read_bytes() == bytes(range(200))


@pytest.mark.parametrize("name", ["preallocate", "allocate"])
def test_a_file_is_enlarged_with_zeros(calls: ModuleType, file: Path, name: str) -> None:
    with file.open("r+b") as opened:
        getattr(calls, name)(opened.fileno(), 100_000)
    assert file.read_bytes() == bytes(range(200)) + bytes(99_800)


def test_allocated_blocks_exist(calls: ModuleType, file: Path) -> None:
    with file.open("r+b") as opened:
        calls.allocate(opened.fileno(), 1 << 20)
    assert file.stat().st_blocks * 512 >= 1 << 20


def test_a_secret_file_is_gone_afterwards(calls: ModuleType) -> None:
    with calls.secret_file(b"key") as path:
        assert Path(path).read_bytes() == b"key"
        assert Path(path).stat().st_mode & 0o077 == 0 or path.startswith("/proc/self/")
    assert not os.path.exists(path)


def test_memory_grows_and_keeps_its_bytes(calls: ModuleType) -> None:
    memory = calls.growing_memory(10, 1 << 60)  # no system has so much
    with memory.view() as view:
        view[:3] = b"abc"
    memory.resize(100_000)
    with memory.view() as view:
        assert (len(view), bytes(view[:4])) == (100_000, b"abc\0")
    memory.free()
    assert len(memory) == 0


def test_memory_that_is_not_written_takes_none(calls: ModuleType) -> None:
    before = linux.resident_bytes()
    memory = calls.growing_memory(10, 1 << 30)
    assert linux.resident_bytes() - before < 1 << 26
    memory.view()[len(memory) - 1] = 1
    assert linux.resident_bytes() - before < 1 << 26
    memory.free()
    assert len(memory) == 0


def test_memory_grows_and_is_freed_while_a_view_lives(calls: ModuleType) -> None:
    memory = calls.growing_memory(10, 1 << 60)
    first = memory.view()
    part = first[2:6]
    first[:3] = b"abc"
    first.release()
    memory.resize(100_000)
    second = memory.view()
    assert (len(second), bytes(second[:4]), len(part)) == (100_000, b"abc\0", 4)
    second[2:4] = b"de"
    memory.resize(200_000)
    assert bytes(memory.view()[:5]) == b"abde\0"
    memory.free()
    memory.free()
    assert (len(memory), len(second), len(part)) == (0, 100_000, 4)


def test_freed_memory_goes_back_to_the_system(calls: ModuleType) -> None:
    before = linux.resident_bytes()
    blocks = [bytes(100_000) for _ in range(1000)]  # of malloc: smaller than what it maps by itself
    last = bytes(100_000)
    blocks.clear()
    calls.return_free_memory()
    if calls is linux:
        assert linux.resident_bytes() - before < 50_000_000
    assert last == bytes(100_000)


def test_the_limit_of_open_files_is_accepted(calls: ModuleType) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert 0 < calls.open_files_max(most) <= most
    assert portable.open_files_max(resource.RLIM_INFINITY) == 10_240


def test_the_process(calls: ModuleType) -> None:
    assert calls.usable_cores() >= 1
    before = calls.resident_bytes()
    memory = b"x" * (64 << 20)
    assert calls.resident_bytes() - before >= 0
    assert calls.resident_bytes() >= len(memory)
    calls.lower_process_priority(2**22 + 1, 5)  # there is no such process: no error


def test_the_choice(calls: ModuleType) -> None:
    assert (system.send_file is calls.send_file) == (
        (calls is portable) == bool(os.environ.get("PYLOGBROKER_PORTABLE"))
    )


def test_only_epoll_is_made_eager(calls: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "HAS_EPOLL", calls.HAS_EPOLL)
    reactor: Any = background.new_reactor()
    make_eager(reactor)
    assert isinstance(reactor._poller, EagerPoller if calls.HAS_EPOLL else type(select.poll()))
    assert others_wait(reactor, -1) != calls.HAS_EPOLL  # poll cannot say
    ran: list[int] = []
    reactor.callLater(0, ran.append, 1)
    reactor.iterate(0)
    assert ran == [1]
    reactor.disconnectAll()
