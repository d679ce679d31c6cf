"""Partitioners: the choice of a record's partition."""

# ruff: noqa: N805  (the methods of an interface have no self)

from __future__ import annotations

from zope.interface import Interface

from pylogbroker.interfaces.factories import IPluginFactory


class IPartitioner(Interface):
    """Partitioner of records sent without a partition number.

    Methods are called on the reactor thread and must not block.
    """

    def partition(key: bytes | None, num_partitions: int) -> int:
        """Return a partition, 0 to `num_partitions` - 1, for a record with this key or none.

        An exception, or a number out of range, fails the record. `num_partitions` is at least 1 and may grow between
        calls.
        """


class IStickyPartitioner(IPartitioner):
    """Partitioner that keeps a partition until its batch is full, for larger batches."""

    def batch_full(topic: str) -> None:
        """Start another batch: the topic's batch of records without keys is full. An exception is logged."""


class IPartitionerFactory(IPluginFactory):
    """Plugin factory of partitioners, one for each topic of a producer; see `partitioner.class`."""
