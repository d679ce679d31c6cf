"""A member made of this project's client."""

from __future__ import annotations

from typing import Any

from pylogbroker.client.messages import Message
from pylogbroker.client.sync import ConsumerConnector
from tests.clients.members.base import (
    HEARTBEAT_MS,
    POLL_SECONDS,
    UNIFORM,
    arguments,
    commands,
    next_command,
    say,
    say_assigned,
    say_record,
)
from tests.clients.model import Rec


def record_of(message: Message) -> Rec:
    return Rec(message.value, message.key, tuple(message.headers), message.timestamp, message.partition, message.offset)


def main() -> None:
    given = arguments()
    settings: dict[str, Any] = {
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "fetch.max.wait.ms": 50,
        "group.instance.id": given.instance,
    }
    if given.assignor == UNIFORM:
        settings |= {"group.protocol": "consumer", "group.remote.assignor": UNIFORM}
    else:
        settings |= {"session.timeout.ms": given.session_ms, "heartbeat.interval.ms": HEARTBEAT_MS}
        settings["partition.assignment.strategy"] = given.assignor
    lines, held = commands(), frozenset[tuple[str, int]]()
    with ConsumerConnector(given.bootstrap, group=given.group, settings=settings) as consumer:
        stream = consumer.stream(given.topic)
        command = ""
        while command != "close":
            message = stream.get(POLL_SECONDS)
            if consumer.assignment != held:
                held = consumer.assignment
                say_assigned(partition for _, partition in held)
            if message is not None:
                say_record(record_of(message))
            command = next_command(lines)
            if command.startswith("commit"):
                consumer.commit_offsets()
                say("committed")
    say("closed")


if __name__ == "__main__":
    main()
