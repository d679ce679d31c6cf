"""Produce the log to a topic. The client's address is the key, so each client's lines are in one partition, in order.

After the last line comes a mark without a key, with only a time:

    2015-05-18T11:36:03+00:00

The mark advances event time, so that counts that wait for that time are completed.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from examples.activity_stream.lines import client_of
from pylogbroker.client.sync import Producer


def produce(producer: Producer, topic: str, lines: Iterable[bytes]) -> None:
    """Send lines, and wait until they are acknowledged."""
    producer.send_many((topic, line, client_of(line)) for line in lines)


def produce_mark(producer: Producer, topic: str, time: datetime) -> None:
    """Send a mark with this time."""
    producer.send(topic, time.isoformat().encode())
