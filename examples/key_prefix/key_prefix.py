"""A partitioner that looks at the beginning of a key only: what comes before the first "/", say.

partitioner.class=key-prefix:/

Orders with the keys `anna/17` and `anna/18` lie in one partition then, in the order in which they were sent.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

import attrs
from twisted.plugin import IPlugin
from zope.interface import implementer

from pylogbroker.interfaces import IPartitioner, IPartitionerFactory
from pylogbroker.partitioning import partition_of_key


@implementer(IPartitioner)
@attrs.frozen
class KeyPrefix:
    """By what a key has before the first separator; without a key, anywhere."""

    separator: bytes

    def partition(self, key: bytes | None, num_partitions: int) -> int:
        if key is None:
            return random.randrange(num_partitions)
        return partition_of_key(key.partition(self.separator)[0], num_partitions)


@implementer(IPlugin, IPartitionerFactory)
class KeyPrefixFactory:
    """Reads the separator from behind the colon."""

    name = "key-prefix"

    def make(self, argument: str, settings: Mapping[str, object]) -> IPartitioner:
        if not argument:
            raise ValueError("expected what a prefix ends with: key-prefix:/")
        return KeyPrefix(argument.encode())
