"""Cleaner process: reads jobs from stdin, writes outcomes to stdout; see `jobs`.

It exits when stdin ends, even during a job: its broker is gone.
"""

from __future__ import annotations

import os
import sys
from queue import SimpleQueue
from threading import Thread
from typing import NoReturn, TextIO

from pylogbroker.errors import PylogbrokerError
from pylogbroker.storage.compaction.blocks import DamagedSegment
from pylogbroker.storage.compaction.cleaner import clean
from pylogbroker.storage.compaction.jobs import Cleaned, CleanerJob, Failed


def answer(line: str) -> Cleaned | Failed:
    try:
        return clean(CleanerJob.from_json(line))
    except DamagedSegment as error:
        return Failed(error.detail, error.path, error.position)
    except (PylogbrokerError, OSError, MemoryError, ValueError) as error:
        return Failed(f"{type(error).__name__}: {error}")


def main(jobs: TextIO, outcomes: TextIO) -> NoReturn:
    lines: SimpleQueue[str] = SimpleQueue()
    Thread(target=_receive, args=(jobs, lines), daemon=True).start()
    while True:
        outcomes.write(answer(lines.get()).to_json() + "\n")
        outcomes.flush()


def _receive(jobs: TextIO, lines: SimpleQueue[str]) -> None:
    for line in jobs:
        lines.put(line)
    os._exit(0)


if __name__ == "__main__":
    main(sys.stdin, sys.stdout)
