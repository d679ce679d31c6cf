"""The list of topics: search and sort order over all of them, one page of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from typing import Annotated, Any, Final

import attrs

from pylogbroker.metadata.image import TopicImage
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.web.cluster_views import TopicRow, topic_row
from pylogbroker.web.formats import duration_text
from pylogbroker.web.paging import Paged, PageNumber, paged
from pylogbroker.web.parameters import Search
from pylogbroker.web.router.values import OneOf
from pylogbroker.web.topic_sizes import NOTHING
from pylogbroker.web.visitors import Visitor

_KEYS: Final = ("name", "partitions", "records", "size", "rate", "groups", "lag", "kept")
SORTS: Final = (*_KEYS, *(f"-{key}" for key in _KEYS))
Sort = Annotated[str, OneOf(SORTS), "a column; with - before it downwards"]
TopicLags = Mapping[str, Mapping[str, int]]
"""Lags by topic and group."""
_CHUNK: Final = 500
_SORTED_AT_ONCE_MAX: Final = 20_000
"""Topics that are sorted within some milliseconds."""


@attrs.frozen
class Kept:
    """Time for which records are kept, None for no limit, and whether they are compacted."""

    ms: int | None
    is_compacted: bool

    @property
    def text(self) -> str:
        limit = "no limit" if self.ms is None else duration_text(self.ms)
        return f"{limit}, compacted" if self.is_compacted else limit


class ListedTopic(TopicRow):
    """`groups` and `most_lag` are of groups that the visitor may see; `kept` is None if it is not shown."""

    groups: int
    most_lag: int | None
    kept: Kept | None
    history: Sequence[float]


class TopicTable(Paged):
    search: str
    without_group: bool
    with_lag: bool
    all_topics: int
    partitions: int
    bytes: int
    rate: float
    topics: list[ListedTopic]


async def topic_table(
    visitor: Visitor,
    search: Search = "",
    sort: Sort = "name",
    page: PageNumber = 1,
    without_group: bool = False,
    with_lag: bool = False,
) -> TopicTable:
    """Return a page of topics; sizes and rates that decide about the order are those of the last sample."""
    services, samples = visitor.services, visitor.samples
    topics, sees_all = services.metadata.topics, visitor.context.access is None
    lags, sizes, rates = await visible_lags(visitor), samples.topic_sizes.noted, samples.topic_rates.noted
    visible, matching = 0, list[TopicImage]()
    async for chunk in services.runtime.slices.over(_chunks(tuple(topics.values()))):  # to count single ones takes long
        seen = chunk if sees_all else [topic for topic in chunk if visitor.sees_topic(topic.name)]
        visible += len(seen)
        if search:
            seen = [topic for topic in seen if search in topic.name]
        if without_group:
            seen = [topic for topic in seen if topic.name not in lags]
        if with_lag:
            seen = [topic for topic in seen if any(lags.get(topic.name, {}).values())]
        matching += seen
    ordered = await _in_order(visitor, matching, sort, lags)
    values, shown = paged(page, sort, ordered)
    rows = [await listed_topic(visitor, topic, lags) async for topic in services.runtime.slices.over(shown)]
    is_all = len(matching) == len(topics)  # the sums of the samples take no time then
    size = samples.topic_sizes.bytes if is_all else sum(sizes.get(topic.name, NOTHING).bytes for topic in matching)
    return {
        "search": search,
        "without_group": without_group,
        "with_lag": with_lag,
        "all_topics": visible,
        "partitions": sum(len(topic.partitions) for topic in matching),
        "bytes": size if values["pages"] > 1 else sum(row["bytes"] for row in rows),
        "rate": sum(rates.values()) if is_all else sum(rates.get(topic.name, 0.0) for topic in matching),
        **values,
        "topics": rows,
    }


def _chunks(topics: Sequence[TopicImage]) -> Iterator[Sequence[TopicImage]]:
    return (topics[start : start + _CHUNK] for start in range(0, len(topics), _CHUNK))


async def visible_lags(visitor: Visitor) -> TopicLags:
    """Return the lags of the last sample by topic, of groups that the visitor may see."""
    lags = visitor.samples.group_lags.topics
    if visitor.context.access is None:
        return lags
    visible: dict[str, Mapping[str, int]] = {}
    async for topic, by_group in visitor.services.runtime.slices.over(lags.items()):
        seen = {group_id: lag for group_id, lag in by_group.items() if visitor.sees_group(group_id)}
        if seen:
            visible[topic] = seen
    return visible


async def _in_order(visitor: Visitor, topics: list[TopicImage], sort: str, lags: TopicLags) -> list[TopicImage]:
    column, is_descending = sort.removeprefix("-"), sort.startswith("-")
    key = await _kept_order(visitor, topics) if column == "kept" else _order(visitor, column, lags)
    if len(topics) <= _SORTED_AT_ONCE_MAX:
        return sorted(topics, key=key, reverse=is_descending)  # the map has them by name
    ordered = await visitor.services.runtime.slices.in_order(topics, key=lambda topic: (key(topic), topic.name))
    return ordered[::-1] if is_descending else ordered


def _order(visitor: Visitor, column: str, lags: TopicLags) -> Callable[[TopicImage], Any]:
    sizes, rates = visitor.samples.topic_sizes.noted, visitor.samples.topic_rates.noted
    orders: dict[str, Callable[[TopicImage], Any]] = {
        "name": lambda topic: topic.name,
        "partitions": lambda topic: len(topic.partitions),
        "records": lambda topic: sizes.get(topic.name, NOTHING).records,
        "size": lambda topic: sizes.get(topic.name, NOTHING).bytes,
        "rate": lambda topic: rates.get(topic.name, 0.0),
        "groups": lambda topic: len(lags.get(topic.name, ())),
        "lag": lambda topic: max(lags.get(topic.name, {}).values(), default=-1),
    }
    return orders[column]


async def _kept_order(visitor: Visitor, topics: Sequence[TopicImage]) -> Callable[[TopicImage], float]:
    """Return the order by how long topics keep records; those whose settings the visitor may not see are first.

    Most topics have no settings of their own, and so the same value.
    """
    settings_of = visitor.services.metadata.topic_settings
    default = _kept_order_of(kept(visitor, {}))
    orders: dict[str, float] = {}
    async for topic in visitor.services.runtime.slices.over(topics):
        settings = settings_of(topic.name)
        if sees_settings(visitor, topic.name):
            orders[topic.name] = _kept_order_of(kept(visitor, settings)) if settings else default
    return lambda topic: orders.get(topic.name, -1)


def _kept_order_of(row: Kept) -> float:
    return inf if row.ms is None else row.ms


async def listed_topic(visitor: Visitor, topic: TopicImage, lags: TopicLags) -> ListedTopic:
    groups = lags.get(topic.name, {})
    settings = visitor.services.metadata.topic_settings(topic.name)
    return {
        **await topic_row(visitor, topic),
        "groups": len(groups),
        "most_lag": max(groups.values(), default=None),
        "kept": kept(visitor, settings) if sees_settings(visitor, topic.name) else None,
        "history": visitor.samples.traffic.spark(topic.name),
    }


def sees_settings(visitor: Visitor, topic: str) -> bool:
    return visitor.allows(AclOperation.DESCRIBE_CONFIGS, AclResourceType.TOPIC, topic)


def kept(visitor: Visitor, settings: Mapping[str, str]) -> Kept:
    config = visitor.services.config.topic(settings)
    has_limit = "delete" in config.cleanup_policy and config.retention_ms >= 0
    return Kept(config.retention_ms if has_limit else None, "compact" in config.cleanup_policy)
