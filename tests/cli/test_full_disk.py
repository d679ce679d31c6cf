"""A disk that is full: the broker and the command say so, and go on when there is space."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from tests.support.line_process import LineProcess
from tests.support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
SPACE_BYTES = 16 << 20
BEHIND_ANOTHER = " (an earlier batch of this connection was rejected)"  # of the batches in flight, any may be named


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "small"
    directory.mkdir()
    options = ["mount", "-t", "tmpfs", "-o", f"size={SPACE_BYTES}", "none", str(directory)]
    if shutil.which("mount") is None or subprocess.run(options, capture_output=True, check=False).returncode:
        pytest.skip("a small file system needs root")
    yield directory
    subprocess.run(["umount", "--lazy", str(directory)], check=True)


def command(*arguments: object, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    words = [sys.executable, "-m", "pylogbroker.cli", *map(str, arguments)]
    return subprocess.run(words, input=given, capture_output=True, cwd=ROOT, check=False)


def ready(address: str) -> tuple[int, str]:
    try:
        with urlopen(f"{address}/readyz", timeout=60) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def test_a_full_disk_is_known_and_forgotten(small_disk: Path) -> None:
    words = [
        sys.executable,
        "-m",
        "pylogbroker.cli",
        "broker",
        "start",
        "-d",
        small_disk,
        "-l",
        "PLAINTEXT://127.0.0.1:0",
    ]
    with LineProcess([*words, "-o", "http.listeners=http://127.0.0.1:0"], cwd=ROOT) as broker:
        bootstrap = broker.expect(r"listening on PLAINTEXT://(\S+)$")[1]
        address = broker.expect(r"web UI on (\S+)/$")[1]
        assert command("topic", "create", "t", "-b", bootstrap).returncode == 0
        assert ready(address) == (200, "ready\n")
        (small_disk / "others").write_bytes(bytes(shutil.disk_usage(small_disk).free - (1 << 18)))
        failed = command("produce", "t", "-b", bootstrap, "--timeout", 5, given=(b"x" * 1000 + b"\n") * 8000)
        reason = f"{small_disk}/t_0: No space left on device"
        assert failed.returncode == 1
        errors = failed.stderr.decode().replace(BEHIND_ANOTHER, "").splitlines()
        assert f"t/0: {reason}: trying again" in errors
        assert errors[-1] == f"Error: no record was acknowledged for 5 s (--timeout): t/0: {reason}"
        assert ready(address) == (503, f"the log directory {small_disk} is full: {reason}\n")
        health = command("cluster", "health", "-b", bootstrap)
        assert health.returncode == 10
        assert f"{small_disk}: No space left on device" in health.stdout.decode()
        (small_disk / "others").unlink()
        wait_until(lambda: ready(address) == (200, "ready\n"))
        assert command("cluster", "health", "-b", bootstrap).returncode == 0
        assert command("produce", "t", "-b", bootstrap, given=b"x").stderr == b"Wrote 1 record to t.\n"
