"""Broker in a process of its own for the run; its data and its log are in one directory."""

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
    "num.partitions": "4",  # of topics that are created on first use
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}


class NotStarted(Exception):
    """The broker did not start; its log gives the reason."""


@contextmanager
def running(directory: Path) -> Iterator[str]:
    """Run a broker for a `with` block; yield its address."""
    directory.mkdir(parents=True)
    log = directory / "broker.log"
    command = [sys.executable, "-m", "twisted", "--log-format=text", "pylogbroker"]
    command += ["--data-dir", str(directory / "data")]
    command += ["--listener", "PLAINTEXT://127.0.0.1:0"]  # any free port
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
