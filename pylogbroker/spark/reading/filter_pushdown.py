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
        for condition in filters:
            narrower = pushdown._and(condition)
            if narrower is None or _column(condition) == "timestamp":
                left.append(condition)
            pushdown = narrower or pushdown
        return pushdown, left

    def takes(self, partition: TopicPartition) -> bool:
        columns = {"topic": partition[0], "partition": partition[1]}
        return all(_holds(condition, columns) for condition in self.keys)

    def of_slice(self, part: Slice, since: Mapping[TopicPartition, int]) -> Slice:
        """Restrict a slice; `since` has the first offsets late enough."""
        start = max(part.start, self.first, since.get((part.topic, part.partition), 0))
        end = part.end if self.end is None else min(part.end, self.end)
        return attrs.evolve(part, start=min(start, part.end), end=max(min(start, part.end), end))

    def _and(self, condition: Filter) -> FilterPushdown | None:
        column = _column(condition)
        if isinstance(condition, IsNotNull):
            return self if column in _NEVER_NULL else None
        if column in ("topic", "partition") and _is_comparison(condition):
            return attrs.evolve(self, keys=(*self.keys, condition))
        if isinstance(condition, _FROM + _UNTIL):
            if column == "offset" and type(condition.value) is int:
                return self._within(condition)
            if column == "timestamp" and isinstance(condition, _FROM) and isinstance(condition.value, datetime):
                return self._not_before(condition.value)
        return None

    def _within(self, condition: Any) -> FilterPushdown:
        narrowed = self
        if isinstance(condition, _FROM):
            narrowed = attrs.evolve(
                narrowed, first=max(narrowed.first, condition.value + isinstance(condition, GreaterThan))
            )
        if isinstance(condition, _UNTIL):
            end = condition.value + (not isinstance(condition, LessThan))
            narrowed = attrs.evolve(narrowed, end=end if narrowed.end is None else min(narrowed.end, end))
        return narrowed

    def _not_before(self, time: datetime) -> FilterPushdown | None:
        if time.tzinfo is None or time <= _EPOCH:
            return None
        milliseconds = -((_EPOCH - time) // timedelta(milliseconds=1))
        return attrs.evolve(self, since=max(milliseconds, self.since or 0))


def _column(condition: Any) -> str | None:
    attribute: tuple[str, ...] = getattr(condition.child if isinstance(condition, Not) else condition, "attribute", ())
    return attribute[0] if len(attribute) == 1 else None


def _is_comparison(condition: Filter) -> bool:
    if isinstance(condition, Not):
        return _is_comparison(condition.child)
    return isinstance(condition, (*_FROM, *_UNTIL, In)) and None not in _values(condition)


def _values(condition: Any) -> tuple[Any, ...]:
    return tuple(condition.value) if isinstance(condition, In) else (condition.value,)


def _holds(condition: Any, columns: Mapping[str, Any]) -> bool:
    if isinstance(condition, Not):
        return not _holds(condition.child, columns)
    actual, expected = columns[condition.attribute[0]], condition.value
    match condition:
        case In():
            return actual in expected
        case GreaterThan():
            return bool(actual > expected)
        case GreaterThanOrEqual():
            return bool(actual >= expected)
        case LessThan():
            return bool(actual < expected)
        case LessThanOrEqual():
            return bool(actual <= expected)
    return bool(actual == expected)
