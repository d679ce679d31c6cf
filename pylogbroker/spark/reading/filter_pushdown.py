"""Filter pushdown: reduce partitions and offsets by a query's filters.

| column           | filter                       | applied                                                       |
|------------------|------------------------------|---------------------------------------------------------------|
| topic, partition | =, <=>, <, <=, >, >=, in, != | fully: other partitions are not read                          |
| offset           | =, <=>, <, <=, >, >=         | fully: slices start later and end earlier                     |
| timestamp        | =, <=>, >, >=                | partly: reading starts at the first record that is as late.   |
|                  |                              | Later offsets may have earlier times: Spark filters, too      |

An upper bound for timestamps does not bound offsets: early timestamps may come late.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import attrs
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from pylogbroker.interfaces import TopicPartition
from pylogbroker.spark.reading.slices import Slice

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FROM: Final = (EqualTo, EqualNullSafe, GreaterThan, GreaterThanOrEqual)
_UNTIL: Final = (EqualTo, EqualNullSafe, LessThan, LessThanOrEqual)
_NEVER_NULL: Final = ("topic", "partition", "offset")


@attrs.frozen
class FilterPushdown:
    keys: tuple[Filter, ...] = ()
    """On topic and partition."""
    first: int = 0
    end: int | None = None
    since: int | None = None
    """In ms: records before the first one as late may be skipped."""

    @classmethod
    def of(cls, filters: Iterable[Filter]) -> tuple[FilterPushdown, list[Filter]]:
        """Return the restrictions, and the filters that Spark must still apply."""
        pushdown, left = cls(), []
        for each in filters:
            narrower = pushdown._and(each)
            if narrower is None or _column(each) == "timestamp":
                left.append(each)
            pushdown = narrower or pushdown
        return pushdown, left

    def takes(self, partition: TopicPartition) -> bool:
        columns = {"topic": partition[0], "partition": partition[1]}
        return all(_holds(each, columns) for each in self.keys)

    def of_slice(self, each: Slice, since: Mapping[TopicPartition, int]) -> Slice:
        """Restrict a slice; `since` has the first offsets late enough."""
        start = max(each.start, self.first, since.get((each.topic, each.partition), 0))
        end = each.end if self.end is None else min(each.end, self.end)
        return attrs.evolve(each, start=min(start, each.end), end=max(min(start, each.end), end))

    def _and(self, each: Filter) -> FilterPushdown | None:
        column = _column(each)
        if isinstance(each, IsNotNull):
            return self if column in _NEVER_NULL else None
        if column in ("topic", "partition") and _is_comparison(each):
            return attrs.evolve(self, keys=(*self.keys, each))
        if isinstance(each, _FROM + _UNTIL):
            if column == "offset" and type(each.value) is int:
                return self._within(each)
            if column == "timestamp" and isinstance(each, _FROM) and isinstance(each.value, datetime):
                return self._not_before(each.value)
        return None

    def _within(self, each: Any) -> FilterPushdown:
        found = self
        if isinstance(each, _FROM):
            found = attrs.evolve(found, first=max(found.first, each.value + isinstance(each, GreaterThan)))
        if isinstance(each, _UNTIL):
            end = each.value + (not isinstance(each, LessThan))
            found = attrs.evolve(found, end=end if found.end is None else min(found.end, end))
        return found

    def _not_before(self, time: datetime) -> FilterPushdown | None:
        if time.tzinfo is None or time <= _EPOCH:
            return None
        milliseconds = -((_EPOCH - time) // timedelta(milliseconds=1))
        return attrs.evolve(self, since=max(milliseconds, self.since or 0))


def _column(each: Any) -> str | None:
    attribute: tuple[str, ...] = getattr(each.child if isinstance(each, Not) else each, "attribute", ())
    return attribute[0] if len(attribute) == 1 else None


def _is_comparison(each: Filter) -> bool:
    if isinstance(each, Not):
        return _is_comparison(each.child)
    return isinstance(each, (*_FROM, *_UNTIL, In)) and None not in _values(each)


def _values(each: Any) -> tuple[Any, ...]:
    return tuple(each.value) if isinstance(each, In) else (each.value,)


def _holds(each: Any, columns: Mapping[str, Any]) -> bool:
    if isinstance(each, Not):
        return not _holds(each.child, columns)
    actual, wanted = columns[each.attribute[0]], each.value
    match each:
        case In():
            return actual in wanted
        case GreaterThan():
            return bool(actual > wanted)
        case GreaterThanOrEqual():
            return bool(actual >= wanted)
        case LessThan():
            return bool(actual < wanted)
        case LessThanOrEqual():
            return bool(actual <= wanted)
    return bool(actual == wanted)
