"""Copies a topic as a stream, in a process that can be killed: `python -m tests.spark.kill_stream BROKER FROM TO DIR`.

It starts the query once for each line of its input, prints the JVM's process id first, and why the query has ended
whenever it has.  What it does with a micro-batch has six points:

    read          a task has read rows
    begun         a task is about to write
    half          a task has written more than the sink keeps back, and there is more to come
    written       a task has written everything, and Spark does not know it yet
    all-written   the driver knows that all tasks have, and has committed nothing
    committed     the driver has committed everything, and Spark has not put it down

A task that reaches a point finds its command in the file DIR/points/POINT:

    wait          the first one renames the file to POINT.PID, and waits until it is gone, even if Spark sends SIGHUP,
                  as it does to those that it leaves behind
    fail          all raise an exception, as long as the file is there

DIR/checkpoint is the query's.  It begins at the end of the topic; a batch has space for 20 records of a transaction and
its markers, so that none is without records.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from pylogbroker.spark.reading.stream_reader import StreamReader
from pylogbroker.spark.sessions import new_session
from pylogbroker.spark.source import PylogbrokerSource
from pylogbroker.spark.writing.sink import StreamWriter, TaskDone
from tests.peers.spark import java_options

KEPT_BACK = 4 << 20  # bytes, of one task
Meet = Callable[[str], None]


def meeting(points: Path) -> Meet:
    """Function that is called at each point, with its name."""

    def meet(point: str) -> None:
        asked, mine = points / point, points / f"{point}.{os.getpid()}"
        try:
            what = asked.read_text()
            if what == "fail":
                raise RuntimeError(f"failed at the point {point}")
            asked.rename(mine)
        except FileNotFoundError:
            return
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        while mine.exists():
            time.sleep(0.01)

    return meet


def watched(meet: Meet) -> type[PylogbrokerSource]:
    """The source and the sink, with their points. They are made here so that Spark gets them by value."""

    class Reader(StreamReader):
        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            for batch in super().read(partition):
                meet("read")
                yield batch

    class Writer(StreamWriter):
        def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskDone:
            meet("begun")
            done = super().write(self._rows(iterator))
            meet("written")
            return done

        def commit(self, messages: Any, batchId: int) -> None:
            meet("all-written")
            super().commit(messages, batchId)
            meet("committed")

        def _rows(self, iterator: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            size = 0
            for batch in iterator:
                if size > KEPT_BACK:
                    meet("half")
                yield batch
                size += batch.nbytes

    class Source(PylogbrokerSource):
        @classmethod
        def name(cls) -> str:
            return "watched"

        def streamReader(self, schema: StructType) -> Any:
            return Reader.of(self.options, schema)

        def streamWriter(self, schema: StructType, overwrite: bool) -> Any:
            return Writer.of(self.options, schema, overwrite)

    return Source


def run(spark: SparkSession, bootstrap: str, source: str, sink: str, place: Path) -> None:
    """The query, until it fails."""
    reader = spark.readStream.format("watched").option("kafka.bootstrap.servers", bootstrap)
    reader = reader.option("subscribe", source).option("kafka.isolation.level", "read_committed")
    rows = reader.option("maxOffsetsPerTrigger", 24).load().select("value", "partition")
    writer = rows.writeStream.format("watched").option("kafka.bootstrap.servers", bootstrap)
    writer.option("topic", sink).option("checkpointLocation", str(place / "checkpoint")).start().awaitTermination()


def main(bootstrap: str, source: str, sink: str, place: str) -> None:
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": " ".join(java_options()),
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": f"{place}/local",
        "spark.sql.warehouse.dir": f"{place}/warehouse",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "4",
    }
    spark = new_session("kills", "local[2,3]", settings)
    print("jvm", spark.sparkContext._gateway.proc.pid, flush=True)  # type: ignore[union-attr]
    spark.dataSource.register(watched(meeting(Path(place) / "points")))
    for _ in sys.stdin:
        try:
            run(spark, bootstrap, source, sink, Path(place))
        except StreamingQueryException as error:
            print("ended:", " ".join(str(error).split()), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
