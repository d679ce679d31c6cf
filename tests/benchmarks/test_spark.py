"""Processor time of Spark's processes, which `benchmarks.spark --processor` measures."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.spark import processor_seconds

BUSY_SECONDS = 0.3
BUSY = f"import time\nwhile time.process_time() < {BUSY_SECONDS}: pass\n"
THEN_WAIT = f"{BUSY}print('busy', flush=True)\ninput()"
PARENT = f"""
import subprocess, sys, threading
def work():
    subprocess.run([sys.executable, "-c", {BUSY!r}], check=True)
    subprocess.run([sys.executable, "-c", {THEN_WAIT!r}], check=True)
thread = threading.Thread(target=work)
thread.start()
thread.join()
"""


def test_time_of_ended_and_running_grandchildren_is_counted() -> None:
    before = processor_seconds()
    command = [sys.executable, "-c", PARENT]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "busy\n"
        assert processor_seconds() - before >= 2 * BUSY_SECONDS - 0.05  # counted in hundredths for each process
        process.stdin.write("\n")
        process.stdin.close()
        assert process.wait() == 0
