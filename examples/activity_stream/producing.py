"""The log into a topic: keyed by the client's address, so that all lines of a client are in one partition, in order."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import attrs

from examples.activity_stream.lines import client_of, mark_at, time_of
from pylogbroker.client.sync import Producer


@attrs.define
class Sent:
    """How many lines were sent, and the latest time in them, if any has one."""

    lines: int = 0
    latest: datetime | None = None


def produce(bootstrap: str, topic: str, log: Path) -> Sent:
    """Send all lines that are not empty; returns when they are acknowledged."""
    sent = Sent()
    with Producer(bootstrap) as producer:
        producer.send_many((topic, line, client_of(line)) for line in _lines(log, sent))
    return sent


def produce_mark(bootstrap: str, topic: str, time: datetime) -> None:
    """Let the topic's readers know that the log's time has come so far."""
    with Producer(bootstrap) as producer:
        producer.send(topic, mark_at(time))


def _lines(log: Path, sent: Sent) -> Iterator[bytes]:
    with log.open("rb") as file:
        for line in file:
            line = line.rstrip(b"\r\n")
            if not line:
                continue
            time = time_of(line)
            sent.lines += 1
            sent.latest = max(filter(None, (sent.latest, time)), default=None)
            yield line
