"""The list of topics: search and sort order over all of them, one page of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from typing import Annotated, Any, Final

from pylogbroker.metadata.image import TopicImage
from pylogbroker.web.cluster_views import TopicRow, topic_row
from pylogbroker.web.paging import Paged, PageNumber, paged
from pylogbroker.web.parameters import Search
from pylogbroker.web.router.values import OneOf
from pylogbroker.web.topic_sizes import NOTHING
from pylogbroker.web.visitors import Visitor

_KEYS: Final = ("name", "partitions", "records", "size", "rate", "groups", "lag", "kept")
SORTS: Final = (*_KEYS, *(f"-{key}" for key in _KEYS))
Sort = Annotated[str, OneOf(SORTS), "a column; with - before it downwards"]
_CHUNK: Final = 500
_SORTED_AT_ONCE_MAX: Final = 20_000
"""Topics that are sorted within some milliseconds."""


class ListedTopic(TopicRow):
    groups: int
    most_lag: int | None
    kept_ms: int | None
    is_compacted: bool
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
    lags, sizes, rates = samples.group_lags.topics, samples.topic_sizes.noted, samples.topic_rates.noted
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
    ordered = await _in_order(visitor, matching, sort)
    values, shown = paged(page, sort, ordered)
    rows = [await listed_topic(visitor, topic) async for topic in services.runtime.slices.over(shown)]
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


async def _in_order(visitor: Visitor, topics: list[TopicImage], sort: str) -> list[TopicImage]:
    key, is_descending = _order(visitor, sort.removeprefix("-")), sort.startswith("-")
    if len(topics) <= _SORTED_AT_ONCE_MAX:
        return sorted(topics, key=key, reverse=is_descending)  # the map has them by name
    ordered = await visitor.services.runtime.slices.in_order(topics, key=lambda topic: (key(topic), topic.name))
    return ordered[::-1] if is_descending else ordered


def _order(visitor: Visitor, column: str) -> Callable[[TopicImage], Any]:
    samples = visitor.samples
    lags, sizes, rates = samples.group_lags.topics, samples.topic_sizes.noted, samples.topic_rates.noted
    orders: dict[str, Callable[[TopicImage], Any]] = {
        "name": lambda topic: topic.name,
        "partitions": lambda topic: len(topic.partitions),
        "records": lambda topic: sizes.get(topic.name, NOTHING).records,
        "size": lambda topic: sizes.get(topic.name, NOTHING).bytes,
        "rate": lambda topic: rates.get(topic.name, 0.0),
        "groups": lambda topic: len(lags.get(topic.name, ())),
        "lag": lambda topic: max(lags.get(topic.name, {}).values(), default=-1),
        "kept": _kept_order(visitor),
    }
    return orders[column]


def _kept_order(visitor: Visitor) -> Callable[[TopicImage], float]:
    """Return how long a topic keeps records; most have no settings of their own, and what the others have."""
    settings_of = visitor.services.metadata.topic_settings
    default = kept({}, visitor)[0] or inf

    def order(topic: TopicImage) -> float:
        settings = settings_of(topic.name)
        return kept(settings, visitor)[0] or inf if settings else default

    return order


async def listed_topic(visitor: Visitor, topic: TopicImage) -> ListedTopic:
    groups = visitor.samples.group_lags.topics.get(topic.name, {})
    kept_ms, is_compacted = kept(visitor.services.metadata.topic_settings(topic.name), visitor)
    return {
        **await topic_row(visitor, topic),
        "groups": len(groups),
        "most_lag": max(groups.values(), default=None),
        "kept_ms": kept_ms,
        "is_compacted": is_compacted,
        "history": visitor.samples.traffic.spark(topic.name),
    }


def kept(settings: Mapping[str, str], visitor: Visitor) -> tuple[int | None, bool]:
    """Return how long records are kept, None for no limit, and whether they are compacted."""
    config = visitor.services.config.topic(settings)
    has_limit = "delete" in config.cleanup_policy and config.retention_ms >= 0
    return config.retention_ms if has_limit else None, "compact" in config.cleanup_policy
