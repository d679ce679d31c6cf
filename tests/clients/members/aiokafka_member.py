"""A member made of aiokafka."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.structs import OffsetAndMetadata

from tests.clients.adapters.aiokafka import record_of
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

ASSIGNORS = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        say_assigned(each.partition for each in assigned)

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Do nothing: the next assignment has the partitions."""


async def main() -> None:
    given = arguments()
    lines = commands()
    consumer = AIOKafkaConsumer(
        bootstrap_servers=given.bootstrap,
        group_id=given.group,
        group_instance_id=given.instance,
        session_timeout_ms=given.session_ms,
        heartbeat_interval_ms=HEARTBEAT_MS,
        partition_assignment_strategy=[ASSIGNORS[given.assignor]],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        fetch_max_wait_ms=50,
        metadata_max_age_ms=2000,
    )
    consumer.subscribe([given.topic], listener=Listener())
    await consumer.start()
    command = ""
    while command != "close":
        batches = await consumer.getmany(timeout_ms=int(POLL_SECONDS * 1000))
        for batch in batches.values():
            for message in batch:
                say_record(record_of(message))
        command = next_command(lines)
        if command.startswith("commit"):
            await consumer.commit(
                {
                    each: OffsetAndMetadata(await consumer.position(each), metadata_of(command))
                    for each in consumer.assignment()
                }
            )
            say("committed")
    await consumer.stop()
    say("closed")


if __name__ == "__main__":
    asyncio.run(main())
