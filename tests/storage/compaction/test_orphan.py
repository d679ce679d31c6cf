"""The cleaner's process without its broker: in the middle of a job that would take hours."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest

from pylogbroker.storage.compaction.jobs import CleanerJob
from pylogbroker.storage.compaction.process import CleanerDied, CleanerProcess
from pylogbroker.storage.compaction.selection import CleanerLimits
from tests.storage.compaction.support import COMPACT, cleanable, put_rounds
from tests.storage.support import NOW, open_log

BROKER = """
import sys, threading, time
from pylogbroker.storage.compaction.jobs import CleanerJob
from pylogbroker.storage.compaction.process import CleanerProcess
cleaner = CleanerProcess()
threading.Thread(target=cleaner.run, args=(CleanerJob.from_json(sys.stdin.readline()),)).start()
while cleaner._running is None:
    time.sleep(0.01)
print(cleaner._running.process.pid, flush=True)
"""


@pytest.fixture
def endless(tmp_path: Path) -> CleanerJob:
    log = open_log(tmp_path / "events_0", COMPACT)
    put_rounds(log, 8)
    return cleanable(log).job(NOW, CleanerLimits(io_bytes_per_second=1))


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def reads(pid: int, directory: Path) -> bool:
    """True if the process has opened a file there."""
    opened = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            opened.append(link.readlink())
    return any(path.is_relative_to(directory) for path in opened)


def test_a_cleaner_ends_when_the_broker_is_killed(endless: CleanerJob, tmp_path: Path) -> None:
    broker = subprocess.Popen([sys.executable, "-c", BROKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert broker.stdin is not None
    assert broker.stdout is not None
    broker.stdin.write(endless.to_json() + "\n")
    broker.stdin.flush()
    pid = int(broker.stdout.readline())
    deadline = time.monotonic() + 20
    while not reads(pid, tmp_path):
        assert is_alive(pid)
        assert time.monotonic() < deadline, "it has not begun"
        time.sleep(0.01)
    broker.send_signal(signal.SIGKILL)
    broker.wait()
    deadline = time.monotonic() + 20
    while is_alive(pid):
        assert time.monotonic() < deadline, "it goes on"
        time.sleep(0.02)
    broker.stdin.close()
    broker.stdout.close()


def test_a_cleaner_can_be_stopped(endless: CleanerJob) -> None:
    cleaner, reported = CleanerProcess(), []

    def run() -> None:
        try:
            cleaner.run(endless)
        except CleanerDied as died:
            reported.append(str(died))

    thread = Thread(target=run)
    thread.start()
    while cleaner._running is None:
        time.sleep(0.01)
    cleaner.abort(for_good=True)
    thread.join(20)
    assert reported == ["killed by signal 9"]
    with pytest.raises(CleanerDied, match="stopped"):
        cleaner.run(endless)
    cleaner.close()


def test_the_last_output_of_a_dead_cleaner_is_reported(endless: CleanerJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "pylogbroker.storage.compaction.process._COMMAND", ("-c", "import sys; input(); sys.exit('no numpy')")
    )
    cleaner = CleanerProcess()
    for _ in range(2):  # each time in another process
        with pytest.raises(CleanerDied, match="ended with status 1: no numpy"):
            cleaner.run(endless)
    cleaner.close()
