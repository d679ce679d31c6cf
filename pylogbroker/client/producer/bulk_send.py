"""Bulk send: records as columns, to avoid work per record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from pylogbroker.client.errors import PluginFailed
from pylogbroker.client.producer.accumulator import OVERHEAD, Accumulator
from pylogbroker.client.producer.batch import BatchQueue, Collector
from pylogbroker.client.producer.topics import ProducerTopic


@attrs.frozen
class BulkColumns:
    topic: str
    values: Sequence[bytes]
    keys: Sequence[bytes] | None
    sizes: Sequence[int]


def columns_of(records: Sequence[Any]) -> BulkColumns | None:
    """Return uniform (topic, value[, key]) records of one topic in bytes as columns; else None."""
    if set(map(type, records)) != {tuple}:
        return None
    width = len(records[0])
    if width not in (2, 3) or set(map(len, records)) != {width}:
        return None
    topics, values, *rest = zip(*records, strict=True)
    keys = rest[0] if rest else None
    kinds = {*map(type, values), *map(type, keys or ())}
    if kinds != {bytes} or set(map(type, topics)) != {str} or set(topics) != {topics[0]}:
        return None
    sizes = [OVERHEAD + len(value) for value in values]
    if keys is not None:
        sizes = [size + len(key) for size, key in zip(sizes, keys, strict=True)]
    return BulkColumns(topics[0], values, keys, sizes)


def put(accumulator: Accumulator, topic: ProducerTopic, columns: BulkColumns, collector: Collector, now: float) -> int:
    """Put leading records into batches; return how many: not all if the partitioner fails."""
    if columns.keys is None and topic.partitioner.batch_full is not None:
        return _put_in_runs(accumulator, topic, columns, collector, now)
    keys: Sequence[bytes | None] = columns.keys or [None] * len(columns.values)
    places: dict[BatchQueue, list[int]] = {}
    try:
        for place, key in enumerate(keys):
            places.setdefault(topic.choose(key), []).append(place)
    except PluginFailed:
        return 0
    for queue, chosen in places.items():
        _put_chosen(accumulator, queue, columns, chosen, collector, now)
    return len(keys)


def _put_in_runs(
    accumulator: Accumulator, topic: ProducerTopic, columns: BulkColumns, collector: Collector, now: float
) -> int:
    """Put records without keys in runs: one partition until its batch is full."""
    timestamp, start, end = int(now * 1000), 0, len(columns.values)
    while start < end:
        try:
            queue = topic.choose(None)
        except PluginFailed:
            break
        start += accumulator.extend(
            queue, None, columns.values[start:], timestamp, columns.sizes[start:], collector, range(start, end), now
        )
    return start


def _put_chosen(
    accumulator: Accumulator,
    queue: BatchQueue,
    columns: BulkColumns,
    places: list[int],
    collector: Collector,
    now: float,
) -> None:
    timestamp, start = int(now * 1000), 0
    values = [columns.values[place] for place in places]
    sizes = [columns.sizes[place] for place in places]
    keys = None if columns.keys is None else [columns.keys[place] for place in places]
    while start < len(values):
        rest = None if keys is None else keys[start:]
        start += accumulator.extend(
            queue, rest, values[start:], timestamp, sizes[start:], collector, places[start:], now
        )
