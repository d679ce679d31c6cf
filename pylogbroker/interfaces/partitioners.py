"""Partitioners: the choice of a record's partition."""

# ruff: noqa: N805  (the methods of an interface have no self)

from __future__ import annotations

from zope.interface import Interface

from pylogbroker.interfaces.factories import IPluginFactory


class IPartitioner(Interface):
    """Partitioner for records that were sent without a partition number."""

    def partition(key: bytes | None, num_partitions: int) -> int:
        """Return a partition number, 0 to `num_partitions` - 1, for a record with this key; None means no key.

        Called on the reactor thread, once for each record; must not block. An exception, or a number out of range,
        fails the record. `num_partitions` is at least 1 and may grow between calls.
        """


class IStickyPartitioner(IPartitioner):
    """Partitioner that stays with one partition until its batch is full, which gives larger batches."""

    def batch_full(topic: str) -> None:
        """Note that the topic's current batch of records without keys is full; the next record starts another batch.

        Called on the reactor thread; an exception is logged.
        """


class IPartitionerFactory(IPluginFactory):
    """Plugin factory of partitioners (`IPartitioner`), one for each topic that a producer writes to.

    The setting `partitioner.class` names it.
    """
