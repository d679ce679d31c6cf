"""Replays, which take the place of what was loaded before; without Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from pylogbroker.errors import ConfigError
from pylogbroker.spark.loading.mappings import JsonValue
from pylogbroker.spark.reading.losses import DataLost
from tests.spark.local_load import here, load_here, make, manifest, records, rows, upper, values
from tests.spark.topics import Rec, Topics


def test_a_replay_replaces_loaded_files(topics: Topics, tmp_path: Path) -> None:
    topic = make(topics)
    for first in range(0, 40, 10):
        topics.fill(topic, records(first, first + 10))
        load_here(topics.bootstrap, topic, tmp_path)
    old = [tmp_path / str(entry.path) for entry in manifest(tmp_path).files()]

    def meanwhile(job, parts, tick):  # type: ignore[no-untyped-def]
        found = here(job, parts, tick)
        assert {value[:5] for (value,) in rows(tmp_path, "value")} == {b"value"}
        return found

    load_here(
        topics.bootstrap, topic, tmp_path, replay=True, since=1_015, until=1_025, mapping=upper, schedule=meanwhile
    )
    assert values(tmp_path) == list(range(40))
    again = {int(value[6:]) for (value,) in rows(tmp_path, "value") if value.startswith(b"again")}
    assert again == set(range(10, 30))  # whole files
    assert all(path.exists() for path in old)
    load_here(topics.bootstrap, topic, tmp_path, keep=0.0)
    assert [path.exists() for path in old] == [True, False, False, True]
    assert values(tmp_path) == list(range(40))


def test_a_replay_of_all_may_change_the_columns(topics: Topics, tmp_path: Path) -> None:
    topic, other = make(topics), make(topics)
    topics.fill(topic, [Rec(b'{"n": %d}' % n) for n in range(10)])
    topics.fill(other, [Rec(b'{"n": 10}')])
    load_here(topics.bootstrap, [topic, other], tmp_path)
    json = JsonValue(pa.schema([("n", pa.int64())]))
    with pytest.raises(ConfigError, match=r"has the columns key: binary.*but this load has.*n: int64"):
        load_here(topics.bootstrap, [topic, other], tmp_path, mapping=json)
    with pytest.raises(ConfigError, match="has the columns"):
        load_here(topics.bootstrap, topic, tmp_path, replay=True, mapping=json)
    load_here(topics.bootstrap, [topic, other], tmp_path, replay=True, mapping=json)
    assert sorted(rows(tmp_path, "n")) == [(n,) for n in range(11)]
    topics.fill(topic, [Rec(b'{"n": 11}')])
    load_here(topics.bootstrap, [topic, other], tmp_path, mapping=json)
    assert sorted(rows(tmp_path, "n")) == [(n,) for n in range(12)]


def test_a_replay_skips_records_that_the_load_skipped(topics: Topics, tmp_path: Path) -> None:
    topic = make(topics)
    topics.fill(topic, [Rec(b"value-%d" % time, timestamp=time) for time in (10, 20, 15, 30)])
    load_here(topics.bootstrap, topic, tmp_path, since=20)
    load_here(topics.bootstrap, topic, tmp_path, replay=True)
    assert values(tmp_path) == [20, 30]


def test_a_replay_keeps_rows_that_the_log_no_longer_has(topics: Topics, tmp_path: Path) -> None:
    topic = make(topics)
    for first in range(0, 30, 10):
        topics.fill(topic, records(first, first + 10))
        load_here(topics.bootstrap, topic, tmp_path)
    topics.trim(topic, 0, 5)
    with pytest.raises(DataLost, match="the log begins at offset 5: the loaded rows are kept"):
        load_here(topics.bootstrap, topic, tmp_path, replay=True, mapping=upper)
    load_here(topics.bootstrap, topic, tmp_path, replay=True, mapping=upper, options={"failOnDataLoss": "false"})
    assert values(tmp_path) == list(range(30))
    assert len([value for (value,) in rows(tmp_path, "value") if value.startswith(b"again")]) == 20
