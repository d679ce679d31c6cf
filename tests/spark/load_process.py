"""A load by Spark, in a process that can be killed: `python -m tests.spark.load_process BOOTSTRAP TOPIC TARGET MASTER`.

It writes slowly, a file for every few records, prints the JVM's process id and `loaded`, and leaves the process id of
each Python worker as a file's name in TARGET-workers.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from pylogbroker.spark import load
from pylogbroker.spark.sessions import new_session
from tests.peers.spark import java_options


def main(bootstrap: str, topic: str, target: str, master: str) -> None:
    workers = Path(f"{target}-workers")
    workers.mkdir(exist_ok=True)

    def slowly(batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch.num_rows:  # the driver asks without rows which columns there will be
            (workers / str(os.getpid())).touch()
        time.sleep(0.2)
        return batch

    spark = started(master)
    options = {"kafka.max.partition.fetch.bytes": "500"}
    done = load(spark, bootstrap, topic, target, mapping=slowly, options=options, file_size=1)
    print("loaded", done.records, done.frame.count(), flush=True)
    spark.stop()


def started(master: str) -> SparkSession:
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": " ".join(java_options()),
        "spark.driver.host": "127.0.0.1",
    }
    spark = new_session("load", master, settings)
    print("jvm", spark.sparkContext._gateway.proc.pid, flush=True)  # type: ignore[union-attr]
    return spark


if __name__ == "__main__":
    main(*sys.argv[1:])
