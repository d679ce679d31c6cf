"""Process of one job of an archive: reads the job from stdin, writes its outcome to stdout.

    {"root": "/var/archive", "topic": "orders", ...}        a job
    {"archived_to": 2000, "files": 1, ...}                  its outcome
    {"error": "..."}                                        or why it failed

It ends when stdin ends, even during the job: its broker is gone.
"""

from __future__ import annotations

import json
import os
import sys
from threading import Thread
from typing import Final

from pylogbroker.table.archive.jobs import ArchiveJob
from pylogbroker.table.archive.writer import archive

_NICENESS: Final = 5


def main() -> None:
    os.nice(_NICENESS)
    line = sys.stdin.readline()
    Thread(target=_end_with_stdin, daemon=True).start()
    try:
        outcome = archive(ArchiveJob.from_json(line)).to_json()
    except Exception as error:  # of libraries, which have many types: the broker's log has one line
        outcome = json.dumps({"error": f"{type(error).__name__}: {error}"})
    print(outcome, flush=True)


def _end_with_stdin() -> None:
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    main()
