"""The built-in partitioners.

name           a record with a key goes                 one without
hash           where Kafka's Java producer puts it      to the same partition as the one before, until a batch is full
hash:random    the same                                 anywhere
random         anywhere                                 anywhere
round-robin    to the partition after the one before    the same
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

import attrs
from twisted.plugin import IPlugin
from zope.interface import implementer

from pylogbroker.interfaces import IPartitioner, IPartitionerFactory, IStickyPartitioner
from pylogbroker.partitioning import partition_of_key

Choose = Callable[[int], int]  # a number from 0 up to this one
_choose: Choose = random.randrange


@implementer(IStickyPartitioner)
@attrs.define
class StickyHashPartitioner:
    """By the key; without one, where the last one went, until its batch is full. Then another partition is chosen."""

    _choose: Choose = _choose
    _chosen: int = attrs.field(default=-1, init=False)
    _partitions: int = attrs.field(default=0, init=False)

    def partition(self, key: bytes | None, num_partitions: int) -> int:
        if key is not None:
            return partition_of_key(key, num_partitions)
        self._partitions = num_partitions
        if not 0 <= self._chosen < num_partitions:
            self._chosen = self._choose(num_partitions)
        return self._chosen

    def batch_full(self, topic: str) -> None:
        if self._partitions > 1:
            self._chosen = (self._chosen + 1 + self._choose(self._partitions - 1)) % self._partitions


@implementer(IPartitioner)
@attrs.frozen
class HashPartitioner:
    """By the key; without one, anywhere."""

    _choose: Choose = _choose

    def partition(self, key: bytes | None, num_partitions: int) -> int:
        return self._choose(num_partitions) if key is None else partition_of_key(key, num_partitions)


@implementer(IPartitioner)
@attrs.frozen
class RandomPartitioner:
    """Anywhere."""

    _choose: Choose = _choose

    def partition(self, key: bytes | None, num_partitions: int) -> int:
        return self._choose(num_partitions)


@implementer(IPartitioner)
@attrs.define
class RoundRobinPartitioner:
    """To one partition after the other; the first one is any, so that not all producers begin with the same."""

    _choose: Choose = _choose
    _last: int = attrs.field(default=-1, init=False)

    def partition(self, key: bytes | None, num_partitions: int) -> int:
        self._last = (self._choose(num_partitions) if self._last < 0 else self._last + 1) % num_partitions
        return self._last


@implementer(IPlugin, IPartitionerFactory)
@attrs.frozen
class HashFactory:
    """Makes the partitioners that go by the key."""

    name: str = "hash"

    def make(self, argument: str, settings: Mapping[str, object]) -> IPartitioner:
        if argument not in ("", "random"):
            raise ValueError("expected hash or hash:random")
        return HashPartitioner() if argument else StickyHashPartitioner()


@implementer(IPlugin, IPartitionerFactory)
@attrs.frozen
class KeylessFactory:
    """Makes the partitioners that don't look at keys."""

    name: str
    _partitioner: Callable[[], IPartitioner]

    def make(self, argument: str, settings: Mapping[str, object]) -> IPartitioner:
        if argument:
            raise ValueError(f"{self.name} takes no argument")
        return self._partitioner()


by_hash = HashFactory()
at_random = KeylessFactory("random", RandomPartitioner)
round_robin = KeylessFactory("round-robin", RoundRobinPartitioner)
