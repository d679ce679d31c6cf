"""Loads without Spark: the parts are filled one after the other, in this process.

    load_here(bootstrap, topic, target)

    python -m tests.spark.load_here BOOTSTRAP TOPIC TARGET REPLAY PAUSE

Run as a program it says `loaded`, and writes slowly, so that it can be killed on the way.
"""

from __future__ import annotations

import json
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pylogbroker.spark.loading.filling import Job
from pylogbroker.spark.loading.load import _given, _schema
from pylogbroker.spark.loading.manifest import Entry, Manifest, Part
from pylogbroker.spark.loading.mapping import RowMapping
from pylogbroker.spark.loading.parquet import Layout
from pylogbroker.spark.loading.planning import Window
from pylogbroker.spark.loading.progress import Progress
from pylogbroker.spark.loading.running import Outcome, Run
from pylogbroker.spark.loading.spreading import told
from pylogbroker.spark.loading.store import Store
from pylogbroker.spark.options import ReadOptions


def here(job: Job, parts: tuple[Part, ...], tick: Callable[[], None]) -> tuple[list[Entry], list[str]]:
    found: list[dict[str, Any]] = []
    for part in parts:
        for text in told(job, part):
            found.append(json.loads(text))
            tick()
    entries = [Entry(**each["entry"]) for each in found if "entry" in each]
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
    spread: Any = here,
    report: Callable[[Progress], None] = lambda progress: None,
) -> Outcome:
    given = _given(bootstrap, topics, {"kafka.default.api.timeout.ms": "10000", **(options or {})})
    parsed = ReadOptions.parse(given, streaming=False)
    store = Store.of(target)
    run = uuid.uuid4().hex[:8]
    job = Job(given, store.target, 0, {}, _schema(parsed, mapping), mapping, Layout(file_size), run)
    with store.locked():
        made = Run(store, job, parsed, Window(since, until), spread, report, keep)
        return made.replay() if replay else made.load()


def manifest(target: Path) -> Manifest:
    return Manifest.of_json((target / "manifest.json").read_bytes())


def rows(target: Path, *columns: str) -> list[tuple[Any, ...]]:
    """The rows of the files that the manifest names, as it says so itself in JSON, in no order."""
    entries = json.loads((target / "manifest.json").read_bytes())["entries"]
    tables = [pq.read_table(target / each["path"]) for each in entries if "path" in each]
    whole = pa.concat_tables(tables) if tables else pa.table({name: [] for name in columns})
    return list(zip(*(whole[name].to_pylist() for name in columns), strict=True))


def strays(target: Path) -> list[str]:
    """Files that are there and do not count."""
    known = {f"{target}/{entry.path}" for entry in manifest(target).files()}
    known |= {f"{target}/{each.path}" for each in manifest(target).replaced}
    return sorted(path.name for path in target.rglob("*.*") if path.is_file() and str(path) not in known)


def slowly(pause: float) -> RowMapping:
    def mapping(batch: pa.RecordBatch) -> pa.RecordBatch:
        time.sleep(pause)
        return batch

    return mapping


def main(arguments: Iterable[str]) -> None:
    bootstrap, topic, target, replay, pause = arguments
    options = {"kafka.max.partition.fetch.bytes": "500"}
    load_here(
        bootstrap, topic, target, replay=replay == "yes", mapping=slowly(float(pause)), options=options, file_size=1
    )
    print("loaded", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
