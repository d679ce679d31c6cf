"""Target assignments of share groups: who reads which of the partitions that have a state.

`ShareAssignmentTask.of` copies what it needs of a group; `run` may be in any thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from uuid import UUID

import attrs

from pylogbroker.assignors.simple import assign_simply
from pylogbroker.groups.consumer.partitions import TopicIdPartition
from pylogbroker.groups.consumer.port import TopicShape
from pylogbroker.groups.share.group import ShareGroup
from pylogbroker.interfaces import Subscription

ASSIGNOR: Final = "simple"

Target = dict[str, frozenset[TopicIdPartition]]


@attrs.frozen
class ShareAssignmentTask:
    epoch: int
    _topics: Mapping[str, tuple[UUID, tuple[int, ...]]]  # id, and partitions that may be assigned
    _subscriptions: Mapping[str, frozenset[str]]
    _former: Mapping[str, frozenset[TopicIdPartition]]

    @classmethod
    def of(cls, group: ShareGroup, topics: Mapping[str, TopicShape]) -> ShareAssignmentTask:
        initialized = group.states.initialized
        available = {
            name: (
                shape.topic_id,
                tuple(number for number in sorted(initialized.get(shape.topic_id, ())) if number < shape.partitions),
            )
            for name, shape in topics.items()
        }
        subscriptions = {member_id: member.topics for member_id, member in group.members.items()}
        return cls(group.epoch, available, subscriptions, dict(group.target))

    @property
    def size(self) -> int:
        return len(self._subscriptions) + sum(len(numbers) for _, numbers in self._topics.values())

    def run(self) -> Target:
        """Assign by places in the lists of partitions, of which some may be missing."""
        places = {
            (topic_id, number): (name, place)
            for name, (topic_id, numbers) in self._topics.items()
            for place, number in enumerate(numbers)
        }
        members = {
            member_id: Subscription(
                tuple(sorted(topics)),
                tuple(
                    sorted(places[partition] for partition in self._former.get(member_id, ()) if partition in places)
                ),
            )
            for member_id, topics in self._subscriptions.items()
        }
        counts = {name: len(numbers) for name, (_, numbers) in sorted(self._topics.items()) if numbers}
        assignment = assign_simply(counts, members)
        return {
            member_id: frozenset((self._topics[name][0], self._topics[name][1][place]) for name, place in some)
            for member_id, some in assignment.items()
        }
