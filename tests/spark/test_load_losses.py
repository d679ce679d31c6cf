"""Errors of a load when the log has changed: retention, recreated, deleted and extended topics; without Spark."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import attrs
import pytest

from pylogbroker.blocking.cluster import BlockingCluster
from pylogbroker.client.metadata import TopicInfo
from pylogbroker.errors import KafkaError
from pylogbroker.spark.loading.job import LoadFailed
from pylogbroker.spark.reading.losses import DataLost
from pylogbroker.wire import NO_ID
from tests.spark.local_load import here, load_here, make, records, rows, upper, values
from tests.spark.topics import Topics
from tests.support.waiting import wait_until


def test_a_gap_left_by_retention_is_an_error(topics: Topics, tmp_path: Path) -> None:
    topic = make(topics)
    topics.fill(topic, records(0, 10))
    load_here(topics.bootstrap, topic, tmp_path)
    topics.fill(topic, records(10, 30))
    topics.trim(topic, 0, 20)
    with pytest.raises(DataLost, match=rf"{topic}/0, offsets 10 to 20, is not loaded yet, but the log begins at"):
        load_here(topics.bootstrap, topic, tmp_path)
    outcome = load_here(topics.bootstrap, topic, tmp_path, options={"failOnDataLoss": "false"})
    assert [(gap.start, gap.end, gap.gap) for gap in outcome.gaps] == [(10, 20, "the log begins at offset 20")]
    assert values(tmp_path) == [*range(10), *range(20, 30)]
    assert load_here(topics.bootstrap, topic, tmp_path).entries == ()


def test_retention_while_loading(topics: Topics, tmp_path: Path) -> None:
    topic = make(topics)
    topics.fill(topic, records(0, 30))

    def late(job, parts, tick):  # type: ignore[no-untyped-def]
        topics.trim(topic, 0, 20)
        return here(job, parts, tick)

    with pytest.raises(LoadFailed, match=f"{topic}/0: some data may have been lost: .* no offset 0"):
        load_here(topics.bootstrap, topic, tmp_path / "failing", schedule=late)
    topic = make(topics)
    topics.fill(topic, records(0, 30))
    options = {"failOnDataLoss": "false"}
    outcome = load_here(topics.bootstrap, topic, tmp_path / "going on", schedule=late, options=options)
    assert [(gap.start, gap.end) for gap in outcome.gaps] == [(0, 20)]
    assert values(tmp_path / "going on") == list(range(20, 30))


def test_a_topic_recreated(topics: Topics, tmp_path: Path) -> None:
    topic = make(topics)
    topics.fill(topic, records(0, 10))
    load_here(topics.bootstrap, topic, tmp_path)
    topics.delete(topic)
    with pytest.raises(DataLost, match=f"topic {topic} has been deleted"):
        load_here(topics.bootstrap, topic, tmp_path)
    make_again(topics, topic)
    topics.fill(topic, records(100, 115))
    with pytest.raises(DataLost, match=f"topic {topic} has been deleted and recreated"):
        load_here(topics.bootstrap, topic, tmp_path)
    load_here(topics.bootstrap, topic, tmp_path, options={"failOnDataLoss": "false"})
    assert values(tmp_path) == [*range(10), *range(100, 115)]
    assert load_here(topics.bootstrap, topic, tmp_path).entries == ()
    load_here(topics.bootstrap, topic, tmp_path, replay=True, mapping=upper)
    assert values(tmp_path) == [*range(10), *range(100, 115)]
    assert len([value for (value,) in rows(tmp_path, "value") if value.startswith(b"again")]) == 15


def test_brokers_that_have_no_topic_ids_for_a_time(
    topics: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The id of the first load is kept, for the time when they have ids again."""
    topic = make(topics)
    topics.fill(topic, records(0, 10))
    load_here(topics.bootstrap, topic, tmp_path)
    found = BlockingCluster.topics

    def without_ids(*given: Any) -> dict[str, TopicInfo]:
        return {name: attrs.evolve(info, topic_id=NO_ID) for name, info in found(*given).items()}

    monkeypatch.setattr(BlockingCluster, "topics", without_ids)
    topics.fill(topic, records(10, 20))
    load_here(topics.bootstrap, topic, tmp_path)
    monkeypatch.undo()
    assert values(tmp_path) == [*range(20)]
    topics.remake(topic)
    topics.fill(topic, records(100, 130))
    with pytest.raises(DataLost, match=f"topic {topic} has been deleted and recreated"):
        load_here(topics.bootstrap, topic, tmp_path)


def test_a_topic_recreated_while_loading(topics: Topics, tmp_path: Path) -> None:
    topic = make(topics)
    topics.fill(topic, records(0, 10))

    def late(job, parts, tick):  # type: ignore[no-untyped-def]
        topics.delete(topic)
        make_again(topics, topic)
        topics.fill(topic, records(100, 115))
        return here(job, parts, tick)

    with pytest.raises(LoadFailed, match="deleted and recreated"):
        load_here(topics.bootstrap, topic, tmp_path, schedule=late)
    assert rows(tmp_path, "value") == []


def make_again(topics: Topics, topic: str) -> None:
    def is_made() -> bool:
        try:
            make(topics, name=topic)
        except AssertionError:
            return False
        return True

    wait_until(is_made)


def test_topics_that_are_not_there(topics: Topics, tmp_path: Path) -> None:
    with pytest.raises(KafkaError, match="no such topic or partition: nothing-of-that-name"):
        load_here(topics.bootstrap, "nothing-of-that-name", tmp_path)


def test_a_partition_that_a_topic_gets(topics: Topics, tmp_path: Path) -> None:
    topic = make(topics)
    topics.fill(topic, records(0, 10))
    load_here(topics.bootstrap, topic, tmp_path)
    topics.widen(topic, 3)
    topics.fill(topic, [attrs.evolve(each, partition=1) for each in records(10, 30)])
    outcome = load_here(topics.bootstrap, topic, tmp_path)
    assert [(entry.partition, entry.start, entry.end) for entry in outcome.entries] == [(1, 0, 20)]
    topics.widen(topic, 4)
    topics.fill(topic, [attrs.evolve(each, partition=3) for each in records(30, 50)])
    topics.trim(topic, 3, 15)
    with pytest.raises(DataLost, match=rf"{topic}/3, offsets 0 to 15, is not loaded yet, but the log begins at"):
        load_here(topics.bootstrap, topic, tmp_path)
    outcome = load_here(topics.bootstrap, topic, tmp_path, options={"failOnDataLoss": "false"})
    assert [(gap.partition, gap.start, gap.end) for gap in outcome.gaps] == [(3, 0, 15)]
    assert values(tmp_path) == [*range(30), *range(45, 50)]


def test_a_topic_that_a_pattern_does_not_find_any_more(topics: Topics, tmp_path: Path) -> None:
    stem = topics.fresh_name()
    names = [make(topics, name=f"{stem}-{letter}") for letter in "ab"]
    for name, first in zip(names, (0, 10), strict=True):
        topics.fill(name, records(first, first + 10))
    pattern = re.compile(f"^{stem}")
    load_here(topics.bootstrap, pattern, tmp_path)
    topics.delete(names[0])
    with pytest.raises(DataLost, match=f"topic {names[0]} has been deleted"):
        load_here(topics.bootstrap, pattern, tmp_path)
    load_here(topics.bootstrap, pattern, tmp_path, options={"failOnDataLoss": "false"})
    assert load_here(topics.bootstrap, pattern, tmp_path).entries == ()
    make_again(topics, names[0])
    topics.fill(names[0], records(20, 25))
    load_here(topics.bootstrap, pattern, tmp_path)
    assert values(tmp_path) == list(range(25))
