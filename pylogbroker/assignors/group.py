"""The built-in assignors of the broker for groups of KIP-848, named as in Kafka.

name       result
uniform    counts differ by one at most, with as few moves as possible
range      a contiguous range of each topic's partitions for each subscriber, whatever it had
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

import attrs
from zope.interface import implementer

from pylogbroker.assignors.even import assign_in_ranges
from pylogbroker.assignors.members import Members
from pylogbroker.assignors.uniform import assign_uniformly
from pylogbroker.interfaces import IGroupAssignor, TopicPartition

Assignment = Mapping[str, Collection[TopicPartition]]


@implementer(IGroupAssignor)
@attrs.frozen
class GroupAssignor:
    name: str
    _assign: Callable[[Mapping[str, int], Members], Assignment]

    def assign(
        self, partitions: Mapping[str, int], members: Members, racks: Mapping[str, Sequence[frozenset[str]]]
    ) -> Assignment:
        """Assign without regard to racks, as Apache Kafka's assignors do."""
        return self._assign(partitions, members)


BUILT_IN: Final[Mapping[str, IGroupAssignor]] = {
    "uniform": GroupAssignor("uniform", assign_uniformly),
    "range": GroupAssignor("range", assign_in_ranges),
}

KAFKA_CLASSES: Final[Mapping[str, str]] = {
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
}
"""Names of these assignors by the classes that Kafka's setting may have."""
