"""Partitioner by the beginning of a key, e.g. the part before the first "/".

partitioner.class=key-prefix:/

Records with the keys `anna/17` and `anna/18` are in one partition, in the order of sending.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

import attrs
from twisted.plugin import IPlugin
from zope.interface import implementer

from pylogbroker.interfaces import IPartitioner, IPartitionerFactory
from pylogbroker.partition_hash import partition_of_key


@implementer(IPartitioner)
@attrs.frozen
class KeyPrefix:
    """Partition by a key's part before the first separator; at random without a key."""

    separator: bytes

    def partition(self, key: bytes | None, num_partitions: int) -> int:
        if key is None:
            return random.randrange(num_partitions)
        return partition_of_key(key.partition(self.separator)[0], num_partitions)


@implementer(IPlugin, IPartitionerFactory)
class KeyPrefixFactory:
    """Factory whose argument, after the colon, is the separator."""

    name = "key-prefix"

    def make(self, argument: str, settings: Mapping[str, object]) -> IPartitioner:
        if not argument:
            raise ValueError("expected what a prefix ends with: key-prefix:/")
        return KeyPrefix(argument.encode())
