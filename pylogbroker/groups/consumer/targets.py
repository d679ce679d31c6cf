"""Target assignments: what an assignor is asked, and the check of its answer.

`AssignmentTask.of` copies what it needs of a group; `run` may be in any thread.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from hashlib import blake2b
from typing import Any

import attrs

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.groups.consumer.group import ConsumerGroup
from pylogbroker.groups.consumer.partitions import TopicIdPartition
from pylogbroker.groups.consumer.port import GroupPort, TopicShape
from pylogbroker.interfaces import Subscription, TopicPartition

Target = dict[str, frozenset[TopicIdPartition]]
Topics = Mapping[str, TopicShape]


def existing_topics(group: ConsumerGroup, port: GroupPort) -> dict[str, TopicShape]:
    shapes = ((name, port.topic(name)) for name in group.subscribed)
    return {name: shape for name, shape in shapes if shape is not None}


def metadata_hash(topics: Topics) -> int:
    """Return a number that differs if a subscribed topic was created or deleted, or got partitions or racks.

    It is 0 for no topics.
    """
    if not topics:
        return 0
    digest = blake2b(digest_size=8)
    for name in sorted(topics):
        shape = topics[name]
        digest.update(b"%d:%b%b%d;" % (len(name), name.encode(), shape.topic_id.bytes, shape.partitions))
        digest.update(shape.racks_digest)
    return int.from_bytes(digest.digest(), signed=True)


@attrs.frozen
class _Consumer:
    topics: frozenset[str]
    instance_id: str | None
    rack_id: str | None
    target: frozenset[TopicIdPartition]


@attrs.frozen
class AssignmentTask:
    assignor: Any  # an IGroupAssignor
    epoch: int
    _target_epoch: int
    _topics: Topics
    _members: Mapping[str, _Consumer]

    @classmethod
    def of(cls, group: ConsumerGroup, assignor: Any, topics: Topics) -> AssignmentTask:
        members = {
            member_id: _Consumer(
                group.topics_of(member), member.instance_id, member.rack_id, group.target_of(member_id)
            )
            for member_id, member in group.members.items()
        }
        return cls(assignor, group.epoch, group.target_epoch, topics, members)

    @property
    def size(self) -> int:
        return len(self._members) + sum(shape.partitions for shape in self._topics.values())

    def run(self) -> Target:
        """Return the target assignment; raise KafkaError for an assignor that fails or breaks the rules."""
        partitions = {name: self._topics[name].partitions for name in sorted(self._topics)}
        racks = {name: shape.racks for name, shape in self._topics.items() if shape.racks}
        subscriptions = self._subscriptions()
        try:
            answer = self.assignor.assign(partitions, subscriptions, racks)
            given = {member_id: tuple(answer.get(member_id, ())) for member_id in self._members}
            unknown = [member_id for member_id in answer if member_id not in self._members]
        except Exception as failure:
            raise self._error(f"it raised {failure!r}") from failure
        if unknown:
            raise self._error(f"it names {unknown[0]!r}, which is not a member")
        self._check(given, partitions)
        ids = {name: shape.topic_id for name, shape in self._topics.items()}
        return {
            member_id: frozenset((ids[topic], number) for topic, number in some) for member_id, some in given.items()
        }

    def _subscriptions(self) -> dict[str, Subscription]:
        names = {shape.topic_id: name for name, shape in self._topics.items()}
        existing: dict[frozenset[str], tuple[str, ...]] = {}
        subscriptions = {}
        for member_id, member in self._members.items():
            topics = existing.get(member.topics)
            if topics is None:
                topics = existing[member.topics] = tuple(sorted(filter(self._topics.__contains__, member.topics)))
            owned = tuple(sorted((names[topic], number) for topic, number in member.target if topic in names))
            subscriptions[member_id] = Subscription(
                topics, owned, b"", self._target_epoch, member.instance_id, member.rack_id
            )
        return subscriptions

    def _check(self, given: Mapping[str, Collection[TopicPartition]], partitions: Mapping[str, int]) -> None:
        owners: dict[TopicPartition, str] = {}
        for member_id, some in given.items():
            topics = self._members[member_id].topics
            for partition in some:
                topic, number = partition
                if topic not in topics or topic not in partitions or not 0 <= number < partitions[topic]:
                    raise self._error(f"it gives {topic}-{number} to {member_id}, which may not have it")
                if owners.setdefault(partition, member_id) != member_id:
                    raise self._error(f"it gives {topic}-{number} to both {owners[partition]} and {member_id}")

    def _error(self, why: str) -> KafkaError:
        return KafkaError(f"the assignor {self.assignor.name!r} failed: {why}", ErrorCode.UNKNOWN_SERVER_ERROR)
