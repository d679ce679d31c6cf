"""A member made of confluent-kafka."""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.clients.adapters.confluent import record_of
from tests.clients.members.base import (
    HEARTBEAT_MS,
    POLL_SECONDS,
    UNIFORM,
    arguments,
    commands,
    metadata_of,
    next_command,
    say,
    say_assigned,
    say_record,
)


def main() -> None:
    given = arguments()
    settings = {
        "bootstrap.servers": given.bootstrap,
        "group.id": given.group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "fetch.wait.max.ms": 50,
        "topic.metadata.refresh.interval.ms": 2000,
    }
    if given.assignor == UNIFORM:
        settings |= {"group.protocol": "consumer", "group.remote.assignor": UNIFORM}
    else:
        settings |= {"session.timeout.ms": given.session_ms, "heartbeat.interval.ms": HEARTBEAT_MS}
        settings["partition.assignment.strategy"] = given.assignor
    if given.instance:
        settings["group.instance.id"] = given.instance
    consumer, lines, next_offsets = Consumer(settings), commands(), dict[int, int]()
    held: set[int] = set()

    def assigned(_: Consumer, partitions: list[TopicPartition]) -> None:
        held.update(each.partition for each in partitions)
        say_assigned(held)

    def revoked(_: Consumer, partitions: list[TopicPartition]) -> None:
        held.difference_update(each.partition for each in partitions)

    consumer.subscribe([given.topic], on_assign=assigned, on_revoke=revoked, on_lost=revoked)
    command = ""
    while command != "close":
        message = consumer.poll(POLL_SECONDS)
        if message is not None:
            if message.error():
                raise KafkaException(message.error())
            record = record_of(message)
            next_offsets[record.partition] = record.offset + 1
            say_record(record)
        command = next_command(lines)
        if command.startswith("commit"):
            offsets = [
                TopicPartition(given.topic, partition, offset, metadata_of(command))
                for partition, offset in next_offsets.items()
                if partition in held
            ]
            if offsets:
                consumer.commit(offsets=offsets, asynchronous=False)
            say("committed")
    consumer.close()
    say("closed")


if __name__ == "__main__":
    main()
