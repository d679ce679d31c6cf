"""The cleaner's process without its broker: in the middle of a job that would take hours."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from threading import Event, Thread

import pytest

from pylogbroker.storage.compaction.jobs import CleanerJob
from pylogbroker.storage.compaction.process import CleanerDied, CleanerProcess
from pylogbroker.storage.compaction.selection import CleanerLimits
from tests.storage.compaction.support import COMPACT, cleanable, each_cleaner, put_rounds, reads
from tests.storage.support import NOW, open_log
from tests.support.waiting import wait_until

BROKER = """
import sys
from pylogbroker.storage.compaction.jobs import CleanerJob
from pylogbroker.storage.compaction.process import CleanerProcess
from tests.storage.compaction.support import each_cleaner
with each_cleaner(lambda process: print(process.pid, flush=True)):
    CleanerProcess().run(CleanerJob.from_json(sys.stdin.readline()))
"""


@pytest.fixture
def endless(tmp_path: Path) -> CleanerJob:
    log = open_log(tmp_path / "events_0", COMPACT)
    put_rounds(log, 8)
    return cleanable(log).job(NOW, CleanerLimits(io_bytes_per_second=1))


def test_a_cleaner_ends_when_the_broker_is_killed(endless: CleanerJob, tmp_path: Path) -> None:
    broker = subprocess.Popen([sys.executable, "-c", BROKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert broker.stdin is not None
    assert broker.stdout is not None
    broker.stdin.write(endless.to_json() + "\n")
    broker.stdin.flush()
    pid = int(broker.stdout.readline())
    ended = os.pidfd_open(pid)
    wait_until(lambda: reads(pid, tmp_path))
    assert not select.select([ended], [], [], 0)[0]
    broker.send_signal(signal.SIGKILL)
    broker.wait()
    assert select.select([ended], [], [], 120)[0], "it goes on"
    os.close(ended)
    broker.stdin.close()
    broker.stdout.close()


def test_a_cleaner_can_be_stopped(endless: CleanerJob) -> None:
    cleaner, reported, started = CleanerProcess(), [], Event()

    def run() -> None:
        try:
            with each_cleaner(lambda _: started.set()):
                cleaner.run(endless)
        except CleanerDied as died:
            reported.append(str(died))

    thread = Thread(target=run)
    thread.start()
    assert started.wait(120)
    cleaner.abort(for_good=True)
    thread.join(120)
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
