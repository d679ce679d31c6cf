"""A member made of kafka-python."""

from __future__ import annotations

from collections.abc import Iterable

import attrs
from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.structs import OffsetAndMetadata

from tests.clients.adapters.kafka_python import record_of
from tests.clients.members.base import (
    HEARTBEAT_MS,
    POLL_SECONDS,
    arguments,
    commands,
    metadata_of,
    next_command,
    say,
    say_assigned,
    say_record,
)

COOPERATIVE = "cooperative-sticky"
ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    COOPERATIVE: CooperativeStickyAssignor,
}


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        say_assigned(each.partition for each in assigned)

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Do nothing: the next assignment has the partitions."""


@attrs.define
class CooperativeListener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Follows added and removed partitions, and prints the rest."""

    _consumer: KafkaConsumer

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        say_assigned(each.partition for each in self._consumer.assignment())

    on_partitions_revoked = on_partitions_assigned


def main() -> None:
    given = arguments()
    lines = commands()
    consumer = KafkaConsumer(
        bootstrap_servers=given.bootstrap,
        group_id=given.group,
        group_instance_id=given.instance,
        session_timeout_ms=given.session_ms,
        heartbeat_interval_ms=HEARTBEAT_MS,
        partition_assignment_strategy=[ASSIGNORS[given.assignor]],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        fetch_max_wait_ms=50,
    )
    listener = CooperativeListener(consumer) if given.assignor == COOPERATIVE else Listener()
    consumer.subscribe([given.topic], listener=listener)
    # a leader that assigns before it has heard of the topic joins again when it hears, and may be stuck then
    consumer.topics()
    command = ""
    while command != "close":
        for batch in consumer.poll(timeout_ms=int(POLL_SECONDS * 1000)).values():
            for message in batch:
                say_record(record_of(message))
        command = next_command(lines)
        if command.startswith("commit"):
            consumer.commit(
                {
                    each: OffsetAndMetadata(consumer.position(each), metadata_of(command), -1)
                    for each in consumer.assignment()
                }
            )
            say("committed")
    consumer.close(autocommit=False)
    say("closed")


if __name__ == "__main__":
    main()
