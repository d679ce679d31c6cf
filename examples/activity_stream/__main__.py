"""`python -m examples.activity_stream LOG`: from a web server's log to a page that shows what went on there."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path

import click
from pyspark.sql import SparkSession

from examples.activity_stream import broker, report
from examples.activity_stream.counting import MINUTE, VISIT_GAP, Streams, TooLate
from examples.activity_stream.files import load_all
from examples.activity_stream.producing import produce, produce_mark


@click.command()
@click.argument("log", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--bootstrap", metavar="HOST:PORT", help="A broker that runs; without, one is started for the run.")
@click.option("--prefix", help="What topics' names begin with; without, `activity-` and the time of day.")
@click.option("--output", default="activity-stream", show_default=True, type=click.Path(path_type=Path))
@click.option("--lateness", default=24.0, show_default=True, help="Hours that a line may come late.")
@click.option("--lines-at-once", default=5000, show_default=True, help="How many lines a micro-batch takes.")
def main(
    log: Path, bootstrap: str | None, prefix: str | None, output: Path, lateness: float, lines_at_once: int
) -> None:
    """Produce a web server's LOG, count views and visits of it in a stream, load all that, and write a report."""
    if output.exists() and any(output.iterdir()):
        raise click.UsageError(f"{output} is not empty: name another directory with --output")
    prefix = prefix or time.strftime("activity-%Y%m%d-%H%M%S-", time.gmtime())
    topics = {name: prefix + name for name in ("lines", "views", "visits")}
    with ExitStack() as stack:
        where = bootstrap or stack.enter_context(broker.running(output / "broker"))
        sent = produce(where, topics["lines"], log)
        if sent.latest is None:
            raise click.ClickException(f"{log} has no line in the combined format")
        click.echo(f"{sent.lines:,} lines are in the topic {topics['lines']} of {where}")
        spark = stack.enter_context(started(output))
        late = timedelta(hours=lateness)
        streams = Streams(
            spark, where, **topics, checkpoints=output / "checkpoints", lateness=late, lines_at_once=lines_at_once
        )
        try:
            streams.run()
            produce_mark(where, topics["lines"], sent.latest + late + VISIT_GAP + MINUTE)
            streams.run()
        except TooLate as error:
            raise click.ClickException(str(error)) from None
        click.echo(f"counts are in {topics['views']} and {topics['visits']}")
        files = load_all(spark, where, topics, output / "files")
        click.echo(f"all of it is in {output / 'files'}")
        page = report.write(report.find(files), output)
    click.echo(f"the report is {page}")


@contextmanager
def started(output: Path) -> Iterator[SparkSession]:
    """A Spark session of two threads, for the length of a `with` block."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("activity stream")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.warehouse.dir": str(output / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.numRecentProgressUpdates": "1000000",  # all of them: none may have dropped a line
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
