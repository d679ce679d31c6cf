"""Faults in a program of asyncio: aiokafka survives them, and they are awaited without blocking its loop."""

from __future__ import annotations

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from pylogbroker.testing import Broker

TIMEOUT = 120


def test_aiokafka_survives_faults() -> None:
    asyncio.run(asyncio.wait_for(survive(), 3 * TIMEOUT))


async def survive() -> None:
    """Produce and consume in a group, with faults on the way."""
    async with Broker(broker_id=0) as broker:
        await asyncio.to_thread(broker.create_topic, "t")
        faults = broker.faults
        produce = faults.add("Produce", ["NOT_LEADER_OR_FOLLOWER", "REQUEST_TIMED_OUT"], topic="t", must_fire=True)
        faults.add("JoinGroup", "COORDINATOR_LOAD_IN_PROGRESS", group="g", must_fire=True)
        faults.add("OffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS", group="g", must_fire=True)
        faults.add("Fetch", close="mid-frame", must_fire=True)
        async with AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap, enable_idempotence=True, retry_backoff_ms=10
        ) as producer:
            for number in range(5):
                await producer.send_and_wait("t", str(number).encode())
        await asyncio.to_thread(produce.wait, 2, TIMEOUT)
        async with AIOKafkaConsumer(
            "t",
            bootstrap_servers=broker.bootstrap,
            group_id="g",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            retry_backoff_ms=10,
        ) as consumer:
            values = [(await consumer.getone()).value for _ in range(5)]
            await consumer.commit()
        assert values == [b"0", b"1", b"2", b"3", b"4"]
        faults.check()
