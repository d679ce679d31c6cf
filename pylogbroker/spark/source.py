"""The data source that Spark knows by the name `pylogbroker`: what it reads and writes, and who does it.

    spark.read.format("pylogbroker").option("kafka.bootstrap.servers", "one:9092").option("subscribe", "events").load()

Columns and options are those of Spark's own Kafka source; `options` says what differs.  Every process that Spark makes
for Python imports this module, so what does the work is imported when it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from pylogbroker.spark.reading.schema import schema_for

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType


class PylogbrokerSource(DataSource):
    """Topics of a cluster as rows; see `pylogbroker.spark.options`."""

    @classmethod
    def name(cls) -> str:
        """What is given to `format`."""
        return "pylogbroker"

    def schema(self) -> StructType:
        """That of Spark's own Kafka source."""
        return schema_for(self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """What reads a batch."""
        from pylogbroker.spark.reading.batches import BatchReader

        return BatchReader.of(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """What reads a stream."""
        from pylogbroker.spark.reading.streaming import StreamReader

        return StreamReader.of(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """What writes a batch."""
        from pylogbroker.spark.writing.sink import BatchWriter

        return BatchWriter.of(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """What writes a stream."""
        from pylogbroker.spark.writing.sink import StreamWriter

        return StreamWriter.of(self.options, schema, overwrite)
