"""`python -m examples.activity_stream LOG`: from a web server's log to a page of statistics."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import click
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from examples.activity_stream import broker, report
from examples.activity_stream.counting import MINUTE, VISIT_GAP, Streams, TooLate
from examples.activity_stream.files import load_all
from examples.activity_stream.lines import latest_of, read
from examples.activity_stream.producing import produce, produce_mark
from pylogbroker.client.sync import Producer
from pylogbroker.errors import PylogbrokerError

_DIRECTORY: Final = click.Path(file_okay=False, path_type=Path)
_HOURS: Final = click.FloatRange(min=0, max=24 * 366)
_COUNT: Final = click.IntRange(min=1)
#: A run is over before the second compiler and a garbage collector with threads have saved the time that they take.
_SHORT_RUN: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


@click.command()
@click.argument("log", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--bootstrap", metavar="HOST:PORT", help="A running broker; default: start one for the run.")
@click.option("--prefix", help="Prefix of topic names; default: `activity-` and the time.")
@click.option(
    "--output", default="activity-stream", show_default=True, type=click.Path(file_okay=False, path_type=Path)
)
@click.option("--lateness", default=24.0, show_default=True, type=_HOURS, help="Hours that a line may be late.")
@click.option("--lines-at-once", default=50_000, show_default=True, type=_COUNT, help="Lines between runs of streams.")
def main(
    log: Path, bootstrap: str | None, prefix: str | None, output: Path, lateness: float, lines_at_once: int
) -> None:
    """Produce a web server's LOG, count its views and visits in streams, load the topics into files, and write a
    report.
    """
    if output.exists() and any(output.iterdir()):
        raise click.UsageError(f"{output} is not empty: delete it, or name another directory with --output")
    click.echo(f"reading {log}: first for its latest time, then for its lines")
    latest = max(filter(None, map(latest_of, read(log, lines_at_once))), default=None)
    if latest is None:
        raise click.ClickException(f"{log} has no line in the common or the combined format")
    prefix = prefix or time.strftime("activity-%Y%m%d-%H%M%S-", time.gmtime())
    topics = {name: prefix + name for name in ("lines", "views", "visits")}
    try:
        with ExitStack() as stack:
            click.echo(f"the latest time is {latest:%Y-%m-%d %H:%M:%S} UTC; starting Spark (some 10 seconds)")
            spark = stack.enter_context(started(output))
            click.echo("starting a broker" if bootstrap is None else f"using the broker at {bootstrap}")
            where = bootstrap or stack.enter_context(broker.running(output / "broker"))
            producer = stack.enter_context(Producer(where))
            late = timedelta(hours=lateness)
            streams = Streams(spark, where, **topics, checkpoints=output / "checkpoints", lateness=late)
            count(producer, streams, read(log, lines_at_once), latest)
            click.echo("loading the topics into files")
            files = load_all(spark, where, topics, output / "files")
            click.echo(f"all records are in {output / 'files'}; writing the report")
            page = report.write(report.find(files), output, log.name)
    except (broker.NotStarted, TooLate, OSError, PylogbrokerError, PySparkException) as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"the report is {page}")


def count(producer: Producer, streams: Streams, log: Iterable[Sequence[bytes]], latest: datetime) -> None:
    """Send lines in batches and count each; with the last one, send the mark that completes the last counts."""
    total = 0
    batches = iter(log)
    lines = next(batches, None)
    while lines is not None:
        produce(producer, streams.lines, lines)
        total += len(lines)
        lines = next(batches, None)
        if lines is None:
            produce_mark(producer, streams.lines, latest + streams.lateness + VISIT_GAP + MINUTE)
        click.echo(f"{total:,} lines are in {streams.lines}; counting")
        streams.run()
    click.echo(f"all counts are in {streams.views} and {streams.visits}")


@contextmanager
def started(output: Path) -> Iterator[SparkSession]:
    """Start a Spark session with two threads, for a `with` block."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("activity stream")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": " ".join(_SHORT_RUN),
        "spark.sql.warehouse.dir": str(output / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()


if __name__ == "__main__":
    main()
