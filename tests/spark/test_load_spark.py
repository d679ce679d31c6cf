"""Loads by Spark: the DataFrame, mappings of one's own, and what is left when one of its processes is killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pylogbroker.config.times import milliseconds
from pylogbroker.errors import ConfigError
from pylogbroker.spark import JsonValue, Progress, load, loaded
from pylogbroker.spark.loading import scheduler
from pylogbroker.spark.loading.job import LoadFailed
from pylogbroker.spark.loading.manifest import BadManifest
from tests.conftest import make_broker
from tests.spark.local_load import load_here, slowly, stray_files
from tests.spark.topics import Rec, Topics
from tests.support.brokers import Broker
from tests.support.budget import Budget
from tests.support.line_process import LineProcess
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One broker: other tests compare fetches on both brokers."""
    running = make_broker("", tmp_path_factory.mktemp("broker"), {})
    running.start()
    yield running
    running.kill()


@pytest.fixture
def one_kind(ours: Broker, fresh_name: Callable[[], str]) -> Iterator[Topics]:
    """Its topics."""
    with Topics(ours.bootstrap, fresh_name) as made:
        yield made


def numbered(first: int, end: int, partitions: int = 2) -> list[Rec]:
    return [Rec(b"%d" % n, b"key", n % partitions, 1_700_000_000_000 + n) for n in range(first, end)]


def numbers(frame: DataFrame) -> list[int]:
    return sorted(int(bytes(row.value)) for row in frame.select("value").collect())


def test_a_load_returns_a_frame_of_the_loaded_rows(spark: SparkSession, one_kind: Topics, tmp_path: Path) -> None:
    topic = one_kind.make(2, retention_ms="-1")
    one_kind.fill(topic, numbered(0, 100))
    target = tmp_path / "a {strange} [name]*, 100%"
    seen: list[Progress] = []
    done = load(spark, one_kind.bootstrap, topic, target, progress=seen.append)
    assert (done.records, done.files, done.lag, done.gaps) == (100, 2, 0, ())
    assert (seen[-1].records, seen[-1].total, seen[-1].lag) == (100, 100, 0)
    assert numbers(done.frame) == list(range(100))
    asked = {"kafka.bootstrap.servers": one_kind.bootstrap, "subscribe": topic}
    source = spark.read.format("pylogbroker").options(**asked).load()
    assert done.frame.schema == source.schema
    assert sorted(done.frame.collect()) == sorted(source.collect())
    (target / "00001" / "notes.parquet").write_bytes(b"somebody's own")
    one_kind.fill(topic, numbered(100, 110))
    assert load(spark, one_kind.bootstrap, topic, target).records == 10
    assert numbers(loaded(spark, target)) == list(range(110))


def test_a_topic_with_a_name_that_spark_ignores(spark: SparkSession, one_kind: Topics, tmp_path: Path) -> None:
    topics = [one_kind.make(name=name, retention_ms="-1") for name in ("_hidden", ".secret")]
    for topic in topics:
        one_kind.fill(topic, numbered(0, 5, 1))
    done = load(spark, one_kind.bootstrap, re.compile("_hidden|secret"), tmp_path)
    counts = {row.topic: row["count"] for row in done.frame.groupBy("topic").count().collect()}
    assert counts == {"_hidden": 5, ".secret": 5}


def test_a_load_of_an_empty_topic(spark: SparkSession, one_kind: Topics, tmp_path: Path) -> None:
    done = load(spark, one_kind.bootstrap, one_kind.make(), tmp_path)
    assert done.frame.count() == 0
    assert "value" in done.frame.columns
    with pytest.raises(BadManifest, match="nothing has been loaded there"):
        loaded(spark, tmp_path / "elsewhere")


def test_a_mapping_of_ones_own(spark: SparkSession, one_kind: Topics, tmp_path: Path) -> None:
    topic = one_kind.make(2, retention_ms="-1")
    one_kind.fill(topic, numbered(0, 100))
    even, kind = 2, pa.list_(pa.string())

    def of_even(rows: pa.RecordBatch) -> pa.RecordBatch:
        number = pc.cast(pc.cast(rows["value"], pa.string()), pa.int64())
        found = pa.record_batch(
            {"number": number, "at": rows["timestamp"], "tags": pa.array([["a"]] * len(number), kind)}
        )
        return found.filter(pc.equal(pc.bit_wise_and(number, even - 1), 0))

    since = datetime.fromtimestamp(1_700_000_000.050, UTC)
    found = load(spark, one_kind.bootstrap, topic, tmp_path, mapping=of_even, since=since).frame.collect()
    assert sorted(row.number for row in found) == list(range(50, 100, 2))
    first = min(found)
    assert (milliseconds("at", first["at"].astimezone(UTC)), first.tags) == (1_700_000_000_050, ["a"])


def test_a_task_that_fails(spark: SparkSession, one_kind: Topics, tmp_path: Path) -> None:
    topic = one_kind.make(2, retention_ms="-1")
    one_kind.fill(topic, [Rec(b'{"n": 1}', partition=0), Rec(b"no", partition=1)])
    mapping = JsonValue(pa.schema([("n", pa.int64())]))
    with pytest.raises(LoadFailed, match=rf"^{topic}/1: {topic}/1, offset 0: not a JSON object.*b'no'"):
        load(spark, one_kind.bootstrap, topic, tmp_path, mapping=mapping)
    assert [row.n for row in loaded(spark, tmp_path).collect()] == [1]

    def ends(rows: pa.RecordBatch) -> pa.RecordBatch:
        if rows.num_rows:
            os._exit(3)
        return rows

    with pytest.raises(LoadFailed, match=r"^Lost task .*Python worker exited unexpectedly"):
        load(spark, one_kind.bootstrap, topic, tmp_path / "other", mapping=ends)


@pytest.mark.parametrize("pause", [0.0, 0.5])
def test_ctrl_c(
    spark: SparkSession, one_kind: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pause: float
) -> None:
    """Before the tasks have begun, and when they have: they are stopped, and the next load goes on."""
    monkeypatch.setattr(scheduler, "_PAUSE", pause)
    topic = one_kind.make(2, retention_ms="-1")
    for first in range(0, 400, 4):
        one_kind.fill(topic, numbered(first, first + 4))

    def interrupted(progress: Progress) -> None:
        interrupted.calls += 1  # type: ignore[attr-defined]
        if interrupted.calls == 2:  # type: ignore[attr-defined]
            raise KeyboardInterrupt

    interrupted.calls = 0  # type: ignore[attr-defined]
    small = {"kafka.max.partition.fetch.bytes": "200"}
    with pytest.raises(KeyboardInterrupt):
        load(
            spark,
            one_kind.bootstrap,
            topic,
            tmp_path,
            mapping=slowly(0.5),
            options=small,
            file_size=1,
            progress=interrupted,
        )
    assert spark.sparkContext.statusTracker().getActiveJobsIds() == []
    count = len(list(tmp_path.rglob("*.parquet")))
    assert count < 100
    load_here(one_kind.bootstrap, topic, tmp_path)
    assert sorted(read_back(tmp_path)) == list(range(400))
    assert len(list(tmp_path.rglob("*.parquet"))) <= count + 4


def test_a_process_is_killed(one_kind: Topics, tmp_path: Path, budget: Budget) -> None:
    """One of the processes, by chance; with `--thorough` each, in a load of its own."""
    victims = ["driver", "jvm", "worker"]
    for who in budget.of([budget.chance("victim of a load").choice(victims)], victims):
        load_and_kill(one_kind, tmp_path / who, who)


def load_and_kill(one_kind: Topics, place: Path, who: str) -> None:
    topic = one_kind.make(2, retention_ms="-1")
    for first in range(0, 300, 6):
        one_kind.fill(topic, numbered(first, first + 6))
    place.mkdir()
    target = place / "target"
    process = LineProcess(command(one_kind.bootstrap, topic, target))
    try:
        jvm = int(process.expect(r"jvm (\d+)")[1])
        wait_until(lambda: len(list(target.rglob("*.parquet"))) >= 4)
        workers = [int(path.name) for path in Path(f"{target}-workers").iterdir()]
        os.kill({"driver": process.pid, "jvm": jvm, "worker": workers[0]}[who], signal.SIGKILL)
        if who == "worker":
            assert process.expect(r"loaded (\d+)")[1] == "300"
        else:
            wait_until(lambda: not any(is_running(each) for each in (jvm, process.pid)))
            assert len(list(target.rglob("*.parquet"))) < 100
    finally:
        process.kill()
    load_here(one_kind.bootstrap, topic, target)
    assert sorted(read_back(target)) == list(range(300))
    assert stray_files(target) == [".lock", "manifest.json"]


def test_a_session_of_spark_connect_cannot_load(tmp_path: Path) -> None:
    """A process without a context raises an AttributeError when it is asked for one."""
    with pytest.raises(ConfigError, match="Spark Connect cannot load"):
        load(cast("SparkSession", object()), "127.0.0.1:1", "t", tmp_path)


def command(bootstrap: str, topic: str, target: Path) -> list[str]:
    return [sys.executable, "-m", "tests.spark.load_process", bootstrap, topic, str(target), "local[2,4]"]


def is_running(number: int) -> bool:
    found = subprocess.run(["ps", "-o", "stat=", "-p", str(number)], capture_output=True, text=True, check=False).stdout
    return bool(found.strip()) and not found.startswith("Z")


def read_back(target: Path) -> list[int]:
    from tests.spark.local_load import rows

    return [int(value) for (value,) in rows(target, "value")]
