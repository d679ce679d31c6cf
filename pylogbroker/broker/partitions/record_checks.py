"""Checks of produced records by what is not a part of the broker's core: a schema registry.

A partition of a topic without such settings has no check. Those of others take the usual path of Produce, and a lock
keeps their batches in order while one is checked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import attrs
from twisted.internet.defer import DeferredLock

from pylogbroker.config import TopicConfig
from pylogbroker.errors import InvalidRecords
from pylogbroker.records import Buffer


class RecordCheck(Protocol):
    async def check(self, records: Buffer) -> None:
        """Raise KafkaError for records that the topic does not take. Heavy work is done in threads."""


MakeRecordCheck = Callable[[str, TopicConfig], RecordCheck]
"""`make(topic, settings)` returns the check of a topic that has one."""


@attrs.frozen(eq=False, repr=False)
class PartitionCheck:
    """Check of a partition; batches are checked and appended in the order in which they came."""

    check: RecordCheck
    lock: DeferredLock = attrs.field(factory=DeferredLock, init=False)


def is_checked(settings: TopicConfig) -> bool:
    return settings.confluent_key_schema_validation or settings.confluent_value_schema_validation


class NoRegistry:
    """Check of a broker that has no schema registry: nothing is taken that might not be valid."""

    async def check(self, records: Buffer) -> None:
        raise InvalidRecords(
            "the topic's records are validated by a schema registry, and this broker has none: set"
            " schema.registry.listeners for it, or remove confluent.value.schema.validation and"
            " confluent.key.schema.validation from the topic"
        )


def without_registry(topic: str, settings: TopicConfig) -> RecordCheck:
    return NoRegistry()
