"""What peers' processes share: options of Java, free ports, a log that is waited on, and a stop that always ends."""

import re
import socket
import subprocess
import time
from pathlib import Path

from tests.peers.maven import PeerError

#: What is over soon is not worth the time of the second compiler, and of a collector with threads of its own.
QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
SHORT_LIVED = (*QUICK, "-Xshare:auto", "-Xmx256M")


def free_ports(count: int) -> list[int]:
    """Return ports of the loopback address that nobody listens on at this moment."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def wait_for_line(log: Path, pattern: str, process: subprocess.Popen[bytes], timeout: float) -> re.Match[str]:
    """Return the first match of `pattern` in a growing log; an error if the process ends or time is up."""
    deadline = time.monotonic() + timeout
    while True:
        ended = process.poll() is not None
        text = log.read_text(errors="replace") if log.exists() else ""
        if found := re.search(pattern, text):
            return found
        if ended or time.monotonic() > deadline:
            state = f"ended with status {process.returncode}" if ended else f"not ready within {timeout} s"
            raise PeerError(f"{process.args!r} {state}:\n{text[-4000:]}")
        time.sleep(0.01)


def stop(process: subprocess.Popen[bytes], timeout: float = 15.0) -> int:
    """End `process` by SIGTERM, or by SIGKILL after `timeout` seconds; return its status."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
    return process.wait()
