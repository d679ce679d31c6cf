"""Objects that exist after a worker's first task are not garbage-collected after each later task."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pylogbroker.spark.options import ReadOptions
from pylogbroker.spark.reading import batch_reader
from pylogbroker.spark.reading.slices import Slice
from tests.spark.topics import Rec, Topics

ONCE = """
import gc
from pylogbroker.spark.garbage import freeze_existing_objects

class Cycle:
    pass

gc.disable()
cycle = Cycle()
cycle.itself = cycle
del cycle
freeze_existing_objects()
assert gc.get_freeze_count() > 1000
gc.unfreeze()
assert not any(isinstance(each, Cycle) for each in gc.get_objects())
freeze_existing_objects()
assert gc.get_freeze_count() == 0
"""


def test_objects_are_frozen_once_without_garbage() -> None:
    done = subprocess.run([sys.executable, "-c", ONCE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_task_freezes_when_it_is_done(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(batch_reader, "freeze_existing_objects", lambda: calls.append("frozen"))
    topic = topics.make()
    topics.fill(topic, [Rec(b"a"), Rec(b"b")])
    given = {"kafka.bootstrap.servers": topics.bootstrap, "subscribe": topic}
    rows = batch_reader.rows_of(ReadOptions.parse(given, streaming=False), Slice(topic, 0, 0, 2))
    assert next(rows)["value"].to_pylist() == [b"a", b"b"]
    assert calls == []
    assert list(rows) == []
    assert calls == ["frozen"]
