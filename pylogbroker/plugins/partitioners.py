"""The built-in partitioners.

name           record with a key                                record without a key
hash           the partition that Kafka's Java producer uses    the current partition, until its batch is full
hash:random    the partition that Kafka's Java producer uses    random
random         random                                           random
round-robin    the next partition                               the next partition
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

import attrs
from twisted.plugin import IPlugin
from zope.interface import implementer

from pylogbroker.interfaces import IPartitioner, IPartitionerFactory, IStickyPartitioner
from pylogbroker.partition_hash import partition_of_key

Choose = Callable[[int], int]  # a number below its argument
_choose: Choose = random.randrange


@implementer(IStickyPartitioner)
@attrs.define
class StickyHashPartitioner:
    """Partition by key; without a key, use one partition until its batch is full."""

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
    _choose: Choose = _choose

    def partition(self, key: bytes | None, num_partitions: int) -> int:
        return self._choose(num_partitions) if key is None else partition_of_key(key, num_partitions)


@implementer(IPartitioner)
@attrs.frozen
class RandomPartitioner:
    _choose: Choose = _choose

    def partition(self, key: bytes | None, num_partitions: int) -> int:
        return self._choose(num_partitions)


@implementer(IPartitioner)
@attrs.define
class RoundRobinPartitioner:
    """Use partitions in rotation; the first is random, so that producers start differently."""

    _choose: Choose = _choose
    _last: int = attrs.field(default=-1, init=False)

    def partition(self, key: bytes | None, num_partitions: int) -> int:
        self._last = (self._choose(num_partitions) if self._last < 0 else self._last + 1) % num_partitions
        return self._last


@implementer(IPlugin, IPartitionerFactory)
@attrs.frozen
class HashFactory:
    name: str = "hash"

    def make(self, argument: str, settings: Mapping[str, object]) -> IPartitioner:
        if argument not in ("", "random"):
            raise ValueError("expected hash or hash:random")
        return HashPartitioner() if argument else StickyHashPartitioner()


@implementer(IPlugin, IPartitionerFactory)
@attrs.frozen
class KeylessFactory:
    name: str
    _partitioner: Callable[[], IPartitioner]

    def make(self, argument: str, settings: Mapping[str, object]) -> IPartitioner:
        if argument:
            raise ValueError(f"{self.name} takes no argument")
        return self._partitioner()


by_hash = HashFactory()
at_random = KeylessFactory("random", RandomPartitioner)
round_robin = KeylessFactory("round-robin", RoundRobinPartitioner)
