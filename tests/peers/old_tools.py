"""The console clients of Kafka 0.8 that need no ZooKeeper: its producer, and its simple consumer of one partition.

write("127.0.0.1:9092", "orders", ["one", "two"])
read("127.0.0.1:9092", "orders", partition=0, count=2)     # ["one", "two"]
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import Final

from tests.peers.maven import PeerError, classpath
from tests.peers.processes import SHORT_LIVED

_SECONDS_MAX: Final = 120.0


def write(bootstrap: str, topic: str, values: Sequence[str]) -> None:
    """Write records with `kafka-console-producer.sh`, and wait for acknowledgements of all in-sync replicas."""
    options = ["--broker-list", bootstrap, "--topic", topic, "--request-required-acks", "-1", "--sync"]
    _run("kafka.tools.ConsoleProducer", options, "".join(f"{value}\n" for value in values))


def read(bootstrap: str, topic: str, partition: int, count: int) -> list[str]:
    """Return the first values of a partition, read by `kafka-simple-consumer-shell.sh`."""
    place = ["--broker-list", bootstrap, "--topic", topic, "--partition", str(partition)]
    return _run("kafka.tools.SimpleConsumerShell", [*place, "--offset", "-2", "--max-messages", str(count)])


def _run(main: str, options: Sequence[str], given: str = "") -> list[str]:
    """Run a tool, and return the lines of its output."""
    command = ["java", *SHORT_LIVED, "-cp", classpath("kafka-0.8"), main, *options]
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=_SECONDS_MAX)
    if done.returncode or "ERROR" in done.stderr:
        raise PeerError(f"{main} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout.splitlines()
