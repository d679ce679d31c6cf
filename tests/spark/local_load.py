"""Loads without Spark: the parts are filled one after the other, in this process.

    load_here(bootstrap, topic, target)

    python -m tests.spark.local_load BOOTSTRAP TOPIC TARGET REPLAY PAUSE

Run as a program it says `loaded`, and writes slowly, so that it can be killed on the way.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pylogbroker.spark.loading.job import LoadJob, Outcome
from pylogbroker.spark.loading.load import _given, _schema
from pylogbroker.spark.loading.manifest import Manifest, ManifestEntry, Part
from pylogbroker.spark.loading.mappings import RowMapping
from pylogbroker.spark.loading.parquet import FileLayout
from pylogbroker.spark.loading.planner import Window
from pylogbroker.spark.loading.progress import Progress
from pylogbroker.spark.loading.scheduler import part_results
from pylogbroker.spark.loading.store import Store
from pylogbroker.spark.loading.task import TaskParameters
from pylogbroker.spark.options import ReadOptions
from tests.spark.topics import Rec, Topics

#: so that every answer holds a few records; with files of a byte, each makes a file
SMALL = {"kafka.max.partition.fetch.bytes": "500"}


def here(
    job: TaskParameters, parts: tuple[Part, ...], tick: Callable[[], None]
) -> tuple[list[ManifestEntry], list[str]]:
    found: list[dict[str, Any]] = []
    for part in parts:
        for text in part_results(job, part):
            found.append(json.loads(text))
            tick()
    entries = [ManifestEntry(**each["entry"]) for each in found if "entry" in each]
    return entries, [each["failure"] for each in found if "failure" in each]


def load_here(
    bootstrap: str,
    topics: Any,
    target: Path | str,
    *,
    since: int | None = None,
    until: int | None = None,
    replay: bool = False,
    mapping: RowMapping | None = None,
    options: Mapping[str, str] | None = None,
    file_size: int = 128 << 20,
    keep: float = 1000.0,
    schedule: Any = here,
    report: Callable[[Progress], None] = lambda progress: None,
) -> Outcome:
    given = _given(bootstrap, topics, {"kafka.default.api.timeout.ms": "10000", **(options or {})})
    parsed = ReadOptions.parse(given, streaming=False)
    store = Store.of(target)
    run = uuid.uuid4().hex[:8]
    job = TaskParameters(given, store.target, 0, {}, _schema(parsed, mapping), mapping, FileLayout(file_size), run)
    with store.locked():
        made = LoadJob(store, job, parsed, Window(since, until), schedule, report, keep)
        return made.replay() if replay else made.load()


def manifest(target: Path) -> Manifest:
    return Manifest.of_json((target / "manifest.json").read_bytes())


def rows(target: Path, *columns: str) -> list[tuple[Any, ...]]:
    """The rows of the files that the manifest names, as it says so itself in JSON, in no order."""
    entries = json.loads((target / "manifest.json").read_bytes())["entries"]
    tables = [pq.read_table(target / each["path"]) for each in entries if "path" in each]
    whole = pa.concat_tables(tables) if tables else pa.table({name: [] for name in columns})
    return list(zip(*(whole[name].to_pylist() for name in columns), strict=True))


def stray_files(target: Path) -> list[str]:
    """Files that are there and do not count."""
    known = {f"{target}/{entry.path}" for entry in manifest(target).files()}
    known |= {f"{target}/{each.path}" for each in manifest(target).replaced}
    return sorted(path.name for path in target.rglob("*.*") if path.is_file() and str(path) not in known)


def records(first: int, end: int, partitions: int = 1) -> list[Rec]:
    return [Rec(b"value-%d" % n, b"key-%d" % n, n % partitions, 1_000 + n) for n in range(first, end)]


def make(topics: Topics, partitions: int = 1, name: str | None = None) -> str:
    """A topic that keeps what is old."""
    return topics.make(partitions, name, retention_ms="-1")


def values(target: Path) -> list[int]:
    """The numbers that the values of those rows have, in order."""
    return sorted(int(value.decode().split("-")[1]) for (value,) in rows(target, "value"))


def start(bootstrap: str, topic: str, target: Path | str, replay: bool, pause: str) -> subprocess.Popen[str]:
    arguments = [bootstrap, topic, str(target), "yes" if replay else "no", pause]
    return subprocess.Popen([sys.executable, "-m", "tests.spark.local_load", *arguments], text=True)


def upper(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A mapping of another generation."""
    again = pa.array([value.replace(b"value", b"again") for value in batch["value"].to_pylist()], pa.binary())
    return batch.set_column(batch.schema.get_field_index("value"), "value", again)


def slowly(pause: float) -> RowMapping:
    def mapping(batch: pa.RecordBatch) -> pa.RecordBatch:
        time.sleep(pause)
        return batch

    return mapping


def main(arguments: Iterable[str]) -> None:
    bootstrap, topic, target, replay, pause = arguments
    mapping = slowly(float(pause))
    load_here(bootstrap, topic, target, replay=replay == "yes", mapping=mapping, options=SMALL, file_size=1)
    print("loaded", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
