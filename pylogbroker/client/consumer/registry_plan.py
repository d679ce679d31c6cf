"""Assignment for groups in the coordination tree: the algorithm, without the tree.

For each topic, PT are its partitions, by broker; CG are all its consumers' streams, sorted. With N = size(PT) /
size(CG), stream i reads the partitions i*N to (i+1)*N - 1 of PT. With a remainder, the first streams read one more
each.

A partition counts for its preferred replica's broker, since leaders change at any moment. Consumers of Kafka 0.8 sort
partitions by number alone (`ZkUtils.getPartitionsForTopics`): with one of them in a group, all do. Streams are sorted
as texts, `<consumer>-<stream>`, as theirs are. With an older view, a consumer finds a partition owned by another, and
reads the tree again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from pylogbroker.client.consumer.filters import Blacklist, TopicFilter, Whitelist
from pylogbroker.errors import ConfigError
from pylogbroker.interfaces import TopicPartition
from pylogbroker.metadata.zk_schema import ConsumerNode, TopicNode

_FILTERS: dict[str, type[TopicFilter]] = {"white_list": Whitelist, "black_list": Blacklist}
_NOWHERE = -1


@attrs.frozen
class View:
    """Group as a consumer sees it; members by id."""

    members: Mapping[str, ConsumerNode]
    topics: Mapping[str, TopicNode]
    by_number: bool = False  # how partitions are sorted: with consumers of Kafka 0.8, by number alone


def plan(view: View, consumer_id: str) -> dict[TopicPartition, int]:
    """Return the consumer's partitions and their stream numbers."""
    planned: dict[TopicPartition, int] = {}
    for topic in topics_of(view.members[consumer_id], view.topics):
        streams = _streams(view.members, topic)
        partitions = _partitions(view.topics[topic], view.by_number)
        share, more = divmod(len(partitions), len(streams))
        for place, (reader, number) in enumerate(streams):
            if reader == consumer_id:
                start = share * place + min(place, more)
                mine = partitions[start : start + share + (place < more)]
                planned.update({(topic, partition): number for partition in mine})
    return planned


def topics_of(consumer: ConsumerNode, topics: Iterable[str]) -> list[str]:
    return sorted(topic for topic in topics if streams_for(consumer, topic))


def streams_for(consumer: ConsumerNode, topic: str) -> int:
    """Count the consumer's streams for the topic. A regex invalid in Python matches nothing."""
    kind = _FILTERS.get(consumer.pattern)
    if kind is None:
        return consumer.subscription.get(topic, 0)
    return max((count for regex, count in consumer.subscription.items() if _matches(kind, regex, topic)), default=0)


def _matches(kind: type[TopicFilter], regex: str, topic: str) -> bool:
    try:
        return kind(regex).matches(topic)
    except ConfigError:
        return False


def _streams(members: Mapping[str, ConsumerNode], topic: str) -> list[tuple[str, int]]:
    streams = [(member, number) for member, node in members.items() for number in range(streams_for(node, topic))]
    return sorted(streams, key=lambda stream: f"{stream[0]}-{stream[1]}")


def _partitions(topic: TopicNode, by_number: bool) -> list[int]:
    if by_number:
        return sorted(topic.replicas)
    return sorted(topic.replicas, key=lambda number: ((*topic.replicas[number], _NOWHERE)[0], number))
