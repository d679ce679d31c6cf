"""A broker in a process of its own, for the run: its data and its log lie in one directory."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

START_SECONDS: Final = 30.0
STOP_SECONDS: Final = 30.0
_SETTINGS: Final[Mapping[str, str]] = {
    "num.partitions": "4",  # of topics that are made by being used
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}


class NotStarted(Exception):
    """The broker does not come up; its log says why."""


@contextmanager
def running(directory: Path) -> Iterator[str]:
    """Where it listens, for the length of a `with` block."""
    directory.mkdir(parents=True)
    log = directory / "broker.log"
    command = [sys.executable, "-m", "twisted", "--log-format=text", "pylogbroker"]
    command += ["--data-dir", str(directory / "data")]
    command += ["--listener", "PLAINTEXT://127.0.0.1:0"]  # any port that is free
    for name, value in _SETTINGS.items():
        command += ["--override", f"{name}={value}"]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        yield _address(process, log)
    finally:
        process.terminate()
        process.wait(STOP_SECONDS)


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        found = re.search(r"listening on PLAINTEXT://(127\.0\.0\.1:[1-9]\d*)", log.read_text())
        if found:
            return found[1]
        time.sleep(0.05)
    raise NotStarted(f"the broker did not start:\n{log.read_text()}")
