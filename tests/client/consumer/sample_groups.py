"""Made-up groups, and how assignors are asked about them: ours and those of other clients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import attrs
from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor as AiokafkaAssignor
from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata
from hypothesis import strategies as st
from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

from pylogbroker.interfaces import IAssignor, Subscription, TopicPartition
from pylogbroker.wire.consumer_protocol import encode_subscription

TOPICS = ("a", "b", "c", "d")
Assignment = Mapping[str, Sequence[TopicPartition]]


@attrs.frozen
class Group:
    """Topics with their numbers of partitions, and members."""

    partitions: dict[str, int]
    members: dict[str, Subscription]

    def with_last(self, assignor: IAssignor, last: Assignment, generation: int = 1) -> Group:
        """The members as they join again, having had `last`."""
        members = {
            member: attrs.evolve(
                each,
                owned=tuple(last.get(member, ())),
                generation=generation,
                user_data=assignor.subscription_user_data(each.topics, last.get(member, ()), generation),
            )
            for member, each in self.members.items()
        }
        return Group(self.partitions, members)

    def to_assign(self) -> set[TopicPartition]:
        """Every partition that somebody subscribes to."""
        wanted = {topic for each in self.members.values() for topic in each.topics}
        return {(topic, n) for topic in wanted for n in range(self.partitions.get(topic, 0))}


def counts(assignment: Assignment) -> list[int]:
    """Return the numbers of the members' partitions, the fewest first."""
    return sorted(map(len, assignment.values()))


def unevenness(numbers: Iterable[int]) -> int:
    """Smaller is more even; the smallest of all divisions of one total is the most even one."""
    return sum(number * number for number in numbers)


def check(group: Group, assignment: Assignment) -> None:
    """Each partition goes to one member, and that subscribes to its topic."""
    assert set(assignment) == set(group.members)
    given = [partition for some in assignment.values() for partition in some]
    assert sorted(given) == sorted(group.to_assign())
    for member, some in assignment.items():
        assert {topic for topic, _ in some} <= set(group.members[member].topics)


def of_kafka_python(assignor: AbstractPartitionAssignor, group: Group) -> Assignment:
    """Return the assignment of kafka-python's assignor, fed with our bytes; it expects static members first."""
    order = sorted(group.members, key=lambda member: group.members[member].instance_id is None)
    members = [
        SimpleNamespace(
            member_id=member,
            group_instance_id=group.members[member].instance_id,
            metadata=ConsumerProtocolSubscription.decode(encode_subscription(group.members[member])),
        )
        for member in order
    ]
    return _plain(assignor.assign(_cluster(group), members))


def of_aiokafka(assignor: type[AiokafkaAssignor], group: Group) -> Assignment:
    """Return the assignment of aiokafka's assignor, fed with our bytes; it knows no static members."""
    members = {
        member: ConsumerProtocolMemberMetadata.decode(encode_subscription(each))
        for member, each in sorted(group.members.items())
    }
    return _plain(assignor.assign(_cluster(group), members))


def _cluster(group: Group) -> Any:
    return SimpleNamespace(
        partitions_for_topic=lambda topic: set(range(group.partitions[topic])) if topic in group.partitions else None,
        topics=lambda: set(group.partitions),
    )


def _plain(answer: Mapping[str, Any]) -> Assignment:
    return {member: sorted(tuple(each) for each in some.partitions()) for member, some in answer.items()}


partitions = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 6), min_size=1)
identical = st.just(TOPICS)
differing = st.sets(st.sampled_from((*TOPICS, "unknown"))).map(lambda topics: tuple(sorted(topics)))


@st.composite
def groups(
    draw: st.DrawFn, topics: st.SearchStrategy[tuple[str, ...]] = differing, most: int = 6, with_static: bool = True
) -> Group:
    """A group of a few members, static ones among them unless they are not wanted."""
    names = draw(st.permutations([f"m{number}" for number in range(draw(st.integers(1, most)))]))
    static = draw(st.sets(st.sampled_from(names))) if with_static else ()
    members = {
        name: Subscription(draw(topics), instance_id=f"i{9 - int(name[1:])}" if name in static else None)
        for name in names
    }
    return Group(draw(partitions), members)
