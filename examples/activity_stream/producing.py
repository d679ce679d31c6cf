"""The log into a topic: keyed by the client's address, so that all lines of a client are in one partition, in order.

Behind the last line comes a mark, which has no key, and a time alone:

    2015-05-18T11:36:03+00:00

It says that the log's time has come so far: whatever waits for that time need not wait any more.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from examples.activity_stream.lines import client_of
from pylogbroker.client.sync import Producer


def produce(producer: Producer, topic: str, lines: Iterable[bytes]) -> None:
    """Send lines; returns when they are acknowledged."""
    producer.send_many((topic, line, client_of(line)) for line in lines)


def produce_mark(producer: Producer, topic: str, time: datetime) -> None:
    """Let the topic's readers know that the log's time has come so far."""
    producer.send(topic, time.isoformat().encode())
