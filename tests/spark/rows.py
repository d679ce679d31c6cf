"""Rows for the sink, without Spark; and what other clients read of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition

from pylogbroker.spark.options import WriteOptions
from pylogbroker.spark.writing.columns import Fields

LIMIT = 120.0


def options(bootstrap: str, topic: str | None = None, **more: Any) -> WriteOptions:
    """Options of a sink; underscores stand for dots in those of the client, which all others are."""
    given = {f"kafka.{name.replace('_', '.')}": str(value) for name, value in more.items()}
    where = {} if topic is None else {"topic": topic}
    return WriteOptions.parse({"kafka.bootstrap.servers": bootstrap, **where, **given})


def batches(values: Iterable[bytes], each: int = 1000) -> list[pa.RecordBatch]:
    """A column `value`."""
    listed = list(values)
    return [pa.record_batch({"value": listed[at : at + each]}) for at in range(0, len(listed), each)]


VALUES = Fields(value=0)


def read(
    bootstrap: str, topic: str, partitions: Sequence[int] = (0,), isolation: str = "read_committed"
) -> list[Message]:
    """Return what librdkafka reads up to the present ends, partition by partition."""
    return [message for number in partitions for message in _read(bootstrap, topic, number, isolation)]


def values(
    bootstrap: str, topic: str, partitions: Sequence[int] = (0,), isolation: str = "read_committed"
) -> list[Any]:
    """Their values."""
    return [message.value() for message in read(bootstrap, topic, partitions, isolation)]


def _read(bootstrap: str, topic: str, number: int, isolation: str) -> list[Message]:
    settings = {"bootstrap.servers": bootstrap, "group.id": "none", "enable.partition.eof": True}
    at_once = {"fetch.wait.max.ms": 10}  # the end is reported by a fetch that finds nothing
    reader = Consumer({**settings, **at_once, "isolation.level": isolation, "enable.auto.commit": False})
    try:
        reader.list_topics(topic, LIMIT)  # else librdkafka asks for the first offset 0.5 s later
        reader.assign([TopicPartition(topic, number, OFFSET_BEGINNING)])
        found: list[Message] = []
        while (message := reader.poll(LIMIT)) is not None:
            if message.error() is not None:
                assert message.error().name() == "_PARTITION_EOF", message.error()
                return found
            found.append(message)
        raise TimeoutError(f"{topic}/{number} was not read to its end")
    finally:
        reader.close()
