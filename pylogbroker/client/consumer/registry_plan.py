"""Who of a group reads what, when it is agreed on in the coordination tree: the algorithm alone, without the tree.

For each topic T that the consumer C subscribes to:

1. PT are the partitions of T, those on one broker together; CG the streams of all consumers of the group that read T.
2. Both are sorted. N = size(PT) / size(CG).
3. The stream at place i of CG reads the partitions i*N to (i+1)*N - 1 of PT; if it does not come out even, the first
   streams read one more.

A partition counts as being on the broker of its preferred replica: that is the same for whoever looks, while leaders
change at any moment. Every consumer comes to the same result if it has seen the same tree; who has not, finds a
partition owned by somebody else, and looks again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from pylogbroker.client.consumer.filters import Blacklist, TopicFilter, Whitelist
from pylogbroker.coordination.layout import ConsumerNode, TopicNode
from pylogbroker.errors import ConfigError
from pylogbroker.interfaces import TopicPartition

_FILTERS: dict[str, type[TopicFilter]] = {"white_list": Whitelist, "black_list": Blacklist}
_NOWHERE = -1


@attrs.frozen
class View:
    """What a consumer has seen of its group: the members by their ids, and the topics that it may read itself."""

    members: Mapping[str, ConsumerNode]
    topics: Mapping[str, TopicNode]


def plan(view: View, consumer_id: str) -> dict[TopicPartition, int]:
    """The partitions that the consumer is to read, and with which of its streams."""
    planned: dict[TopicPartition, int] = {}
    for topic in topics_of(view.members[consumer_id], view.topics):
        streams = _streams(view.members, topic)
        partitions = _partitions(view.topics[topic])
        share, more = divmod(len(partitions), len(streams))
        for place, (reader, number) in enumerate(streams):
            if reader == consumer_id:
                start = share * place + min(place, more)
                mine = partitions[start : start + share + (place < more)]
                planned.update({(topic, partition): number for partition in mine})
    return planned


def topics_of(consumer: ConsumerNode, topics: Iterable[str]) -> list[str]:
    """Which of the topics a consumer reads."""
    return sorted(topic for topic in topics if streams_for(consumer, topic))


def streams_for(consumer: ConsumerNode, topic: str) -> int:
    """With how many streams a consumer reads a topic. A regex that Python cannot read matches nothing."""
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
    return [(member, number) for member, node in sorted(members.items()) for number in range(streams_for(node, topic))]


def _partitions(topic: TopicNode) -> list[int]:
    return sorted(topic.replicas, key=lambda number: ((*topic.replicas[number], _NOWHERE)[0], number))
