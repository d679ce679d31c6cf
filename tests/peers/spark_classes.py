"""`python -m tests.peers.spark_classes FILE`: archive the classes that Spark loads for work like that of the tests."""

import os
import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from pylogbroker.client.sync import Producer
from tests.peers.processes import QUICK
from tests.peers.spark import SILENT
from tests.support.broker_process import BrokerProcess

_TOPIC = "numbers"


def main(archive: str) -> None:
    """Do something of everything that the tests do, and let the JVM archive what it has loaded."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory() as name:
        broker = BrokerProcess(Path(name, "broker"))
        broker.start()
        settings = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.extraJavaOptions": " ".join([*QUICK, *SILENT, f"-XX:ArchiveClassesAtExit={archive}"]),
            "spark.local.dir": f"{name}/local",
            "spark.sql.warehouse.dir": f"{name}/warehouse",
            "spark.sql.shuffle.partitions": "2",
        }
        try:
            spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
            _work(spark, broker.bootstrap, name)
            gateway = spark.sparkContext._gateway
            spark.stop()
            assert gateway is not None
            gateway.shutdown()
            gateway.proc.stdin.close()
            gateway.proc.wait()
        finally:
            broker.kill()


def _work(spark: SparkSession, bootstrap: str, place: str) -> None:
    options = {"kafka.bootstrap.servers": bootstrap}
    with Producer(bootstrap) as producer:
        producer.send(_TOPIC, b"0")
    numbers = spark.range(100).selectExpr("cast(id as string) value", "cast(id % 7 as string) key")
    numbers.write.format("pylogbroker").options(**options, topic=_TOPIC).mode("append").save()
    rows = spark.read.format("pylogbroker").options(**options, subscribe=_TOPIC).load()
    rows.groupBy("key").count().orderBy("key").collect()
    rows.selectExpr("key", "value").write.parquet(f"{place}/rows")
    assert spark.read.parquet(f"{place}/rows").count() == 101
    stream = (
        spark.readStream.format("pylogbroker").options(**options, subscribe=_TOPIC, startingOffsets="earliest").load()
    )
    counts = stream.withWatermark("timestamp", "1 second").groupBy("timestamp", "key").count().selectExpr("key value")
    for frame, checkpoint in ((stream.select("value"), "plain"), (counts, "counts")):
        sink = frame.writeStream.format("pylogbroker").options(**options, topic="copies")
        sink = sink.option("checkpointLocation", f"{place}/{checkpoint}").outputMode("append")
        sink.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
