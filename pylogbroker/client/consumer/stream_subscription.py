"""Subscription of a program, and its streams."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import attrs

from pylogbroker.client.consumer.actions import MemberSubscription
from pylogbroker.client.consumer.filters import Blacklist, TopicFilter, Whitelist
from pylogbroker.client.consumer.streams import Stream
from pylogbroker.errors import ConfigError
from pylogbroker.metadata.zk_schema import ConsumerNode


@attrs.frozen
class StreamSubscription:
    """Topics with own streams, or a filter with shared ones."""

    topics: Mapping[str, Sequence[Stream]] = attrs.field(factory=dict)
    filter: TopicFilter | None = None
    shared: Sequence[Stream] = ()

    @classmethod
    def to_topics(cls, topics: Mapping[str, int], new: Callable[[], Stream]) -> StreamSubscription:
        """Raise ConfigError for invalid topics or stream counts."""
        if not isinstance(topics, Mapping) or not all(isinstance(topic, str) for topic in topics):
            raise ConfigError(f"{topics!r}: expected topics with their numbers of streams, for example {{'orders': 1}}")
        if not topics:
            raise ConfigError("no topics are given")
        return cls({topic: _streams(count, new) for topic, count in topics.items()})

    @classmethod
    def to_filter(cls, topics: TopicFilter, count: int, new: Callable[[], Stream]) -> StreamSubscription:
        """Raise ConfigError for an invalid filter or stream count."""
        if not isinstance(topics, TopicFilter):
            raise ConfigError(f"{topics!r}: expected a Whitelist or a Blacklist, for example Whitelist('orders.*')")
        return cls(filter=topics, shared=_streams(count, new))

    def streams(self) -> list[Stream]:
        return [*self.shared, *(stream for streams in self.topics.values() for stream in streams)]

    def streams_of(self, topic: str) -> Sequence[Stream]:
        return self.shared if self.filter is not None else self.topics[topic]

    def among(self, there: Iterable[str]) -> frozenset[str]:
        """Return the matches in `there`, or all named topics, existing or not."""
        if self.filter is None:
            return frozenset(self.topics)
        return frozenset(topic for topic in there if self.filter.matches(topic))

    def reads(self, topic: str) -> bool:
        """Return whether a stream can read a topic."""
        return topic in self.topics if self.filter is None else self.filter.matches(topic)

    @property
    def expression(self) -> str | None:
        """Regular expression that a broker can evaluate; None without one."""
        return self.filter.expression if isinstance(self.filter, Whitelist) else None

    def of_member(self, there: Iterable[str]) -> MemberSubscription:
        """Return the subscription of a member whose coordinator assigns."""
        if self.expression is not None:
            return MemberSubscription(expression=self.expression)
        return MemberSubscription(self.among(there))

    def node(self) -> ConsumerNode:
        if self.filter is None:
            return ConsumerNode({topic: len(streams) for topic, streams in self.topics.items()})
        pattern = "black_list" if isinstance(self.filter, Blacklist) else "white_list"
        return ConsumerNode({self.filter.pattern: len(self.shared)}, pattern)


def _streams(count: int, new: Callable[[], Stream]) -> list[Stream]:
    if not isinstance(count, int) or count < 1:
        raise ConfigError(f"{count!r} is not a valid number of streams: expected 1 or more")
    return [new() for _ in range(count)]
