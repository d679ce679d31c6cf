"""Partitioners: which partition of its topic a record goes to."""

# ruff: noqa: N805  (the methods of an interface have no self)

from __future__ import annotations

from zope.interface import Interface

from pylogbroker.interfaces.factories import IPluginFactory


class IPartitioner(Interface):
    """Chooses the partitions of records that were sent without one."""

    def partition(key: bytes | None, num_partitions: int) -> int:
        """A number from 0 to `num_partitions` - 1, at least one, for a record with this key; None is no key.

        Called on the reactor's thread, once for each record; must not block. An exception, or another number, fails
        that record. The number of partitions can grow between two calls.
        """


class IStickyPartitioner(IPartitioner):
    """A partitioner that keeps to one partition until its batch is full, so that batches become large."""

    def batch_full(topic: str) -> None:
        """The batch of the topic that the last record without key went to takes no more: the next one begins another.

        Called on the reactor's thread; an exception is logged.
        """


class IPartitionerFactory(IPluginFactory):
    """Makes partitioners (`IPartitioner`), one for each topic that a producer writes to: a plugin.

    Settings name it: `partitioner.class`.
    """
