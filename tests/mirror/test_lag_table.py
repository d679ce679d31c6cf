"""Lags that are kept as offsets change, beside those that are computed from all partitions."""

from __future__ import annotations

import random

import pytest

from pylogbroker.client.consumer.fetch_buffer import FetchBuffer
from pylogbroker.mirror.lag_table import LagTable


def lag_of(buffer: FetchBuffer) -> int:
    end = buffer.last_stable_offset if buffer.last_stable_offset >= 0 else buffer.high_watermark
    return -1 if end < 0 or buffer.delivered < 0 else max(0, end - buffer.delivered)


@pytest.mark.parametrize("seed", range(20))
def test_lags_are_those_of_all_partitions(seed: int) -> None:
    choose, table = random.Random(seed), LagTable()
    buffers: dict[tuple[str, int], FetchBuffer] = {}
    for _ in range(300):
        key = choose.choice("ab"), choose.randrange(3)
        if choose.random() < 0.1:
            buffers.pop(key, None)
            table.remove(key)
            continue
        buffer = buffers.setdefault(key, FetchBuffer(*key, 100))
        buffer.delivered, buffer.high_watermark, buffer.last_stable_offset = (choose.randrange(-1, 3) for _ in "123")
        table.update(buffer)
        lags = {key: lag_of(buffer) for key, buffer in buffers.items()}
        assert {key: lag.records for key, lag in table.partitions.items()} == lags
        assert table.records == sum(max(0, lag) for lag in lags.values())
        assert table.are_zero == (not any(lags.values()))
        assert {name: (topic.partitions, topic.records) for name, topic in table.topics.items()} == {
            name: (len(listed), sum(max(0, lag) for lag in listed))
            for name in "ab"
            if (listed := [lag for (topic, _), lag in lags.items() if topic == name])
        }


def test_lag_that_changes_is_another_object() -> None:
    table, buffer = LagTable(), FetchBuffer("a", 0, 100, delivered=0, high_watermark=1)
    table.update(buffer)
    before = table.partitions["a", 0]
    table.update(buffer)
    assert table.partitions["a", 0] is before
    buffer.delivered = 1
    table.update(buffer)
    assert table.partitions["a", 0] is not before
