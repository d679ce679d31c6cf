"""Run the parts of a load in Spark: one task per part.

A UDF loads each part and returns JSON, `{"entry": ...}` or `{"failure": "..."}`. No row passes through the JVM.
Permanent errors are returned: other tasks finish. Retriable ones are raised: Spark repeats the task, up to
spark.task.maxFailures times. Vectorized UDFs would need pandas.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, Final

import attrs

from pylogbroker.client.errors import is_retriable
from pylogbroker.errors import PylogbrokerError
from pylogbroker.features import on_first_use
from pylogbroker.spark.garbage import freeze_existing_objects
from pylogbroker.spark.loading.manifest import ManifestEntry, Part
from pylogbroker.spark.loading.task import TaskParameters, load_part

if TYPE_CHECKING:
    from pyspark.sql import SparkSession, functions
else:
    functions = on_first_use("pyspark.sql.functions")

_PAUSE: Final = 0.5  # seconds between ticks


def schedule(
    spark: SparkSession, parameters: TaskParameters, parts: tuple[Part, ...], tick: Callable[[], None]
) -> tuple[list[ManifestEntry], list[str]]:
    """Load the parts, calling `tick` meanwhile. On an error or interruption, stop the tasks."""
    tag = f"pylogbroker-load-{uuid.uuid4().hex}"
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(_collected, spark, tag, parameters, parts)
        try:
            while not wait([running], _PAUSE).done:
                tick()
        except BaseException:
            _stop(spark, tag, running)
            raise
        return _results(running)


def _stop(spark: SparkSession, tag: str, running: Future[list[str]]) -> None:
    """Cancel repeatedly: Spark may not have started the job."""
    while not running.done():
        spark.sparkContext.cancelJobsWithTag(tag)
        wait([running], _PAUSE)


def _collected(spark: SparkSession, tag: str, parameters: TaskParameters, parts: tuple[Part, ...]) -> list[str]:
    def work(number: int) -> list[str]:
        try:
            return list(part_results(parameters, parts[number]))
        finally:
            freeze_existing_objects()

    filled = functions.udf(work, "array<string>", useArrow=False).asNondeterministic()
    spark.sparkContext.addJobTag(tag)  # only the thread that set session tags can cancel them
    rows = spark.range(0, len(parts), 1, len(parts)).select(filled("id").alias("results")).collect()
    return [text for row in rows for text in row.results]


def part_results(parameters: TaskParameters, part: Part) -> Iterator[str]:
    where = part.slice
    try:
        for entry in load_part(parameters, part):
            yield json.dumps({"entry": attrs.asdict(entry)})
    except (PylogbrokerError, OSError) as error:
        if is_retriable(error):
            raise
        what = error if isinstance(error, PylogbrokerError) else f"{type(error).__name__}: {error}"
        yield json.dumps({"failure": f"{where.topic}/{where.partition}: {what}"})


def _results(running: Future[list[str]]) -> tuple[list[ManifestEntry], list[str]]:
    try:
        outcomes: list[dict[str, Any]] = [json.loads(text) for text in running.result()]
    except Exception as error:
        return [], [_reason(error)]
    entries = [ManifestEntry(**outcome["entry"]) for outcome in outcomes if "entry" in outcome]
    return entries, [outcome["failure"] for outcome in outcomes if "failure" in outcome]


def _reason(error: Exception) -> str:
    lines = str(error).splitlines()
    failures = [line.partition("most recent failure: ")[2] for line in lines if "most recent failure: " in line]
    python = [line for line in lines if re.match(r"pylogbroker\.|\w+(Error|Exception|Interrupt)\b", line)]
    return [type(error).__name__, *lines[:1], *failures, *python][-1]
