"""The data source that Spark knows as `pylogbroker`.

    spark.read.format("pylogbroker").option("kafka.bootstrap.servers", "one:9092").option("subscribe", "events").load()

Columns and options are those of Spark's own Kafka source; `options` lists differences. Readers and writers are imported
on first use: every Python process of Spark imports this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyspark
from pyspark.sql.datasource import DataSource

from pylogbroker.errors import ConfigError
from pylogbroker.features import on_first_use
from pylogbroker.spark.reading.schema import schema_for

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType

    from pylogbroker.spark.reading import batch_reader, stream_reader
    from pylogbroker.spark.writing import sink
else:
    batch_reader = on_first_use("pylogbroker.spark.reading.batch_reader")
    sink = on_first_use("pylogbroker.spark.writing.sink")
    stream_reader = on_first_use("pylogbroker.spark.reading.stream_reader")


_OLDEST: Final = (4, 2)


class PylogbrokerSource(DataSource):
    """Topics as rows; see `options`."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        if tuple(map(int, pyspark.__version__.split(".")[:2])) < _OLDEST:
            raise ConfigError(
                f"PySpark {pyspark.__version__} is too old: install 4.2 or newer where driver and executors run"
            )

    @classmethod
    def name(cls) -> str:
        return "pylogbroker"

    def schema(self) -> StructType:
        return schema_for(self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        return batch_reader.BatchReader.of(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return stream_reader.StreamReader.of(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Raise NoBrokers if no broker can be reached."""
        writer = sink.BatchWriter.of(self.options, schema, overwrite)
        writer.reach()
        return writer

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        return sink.StreamWriter.of(self.options, schema, overwrite)
