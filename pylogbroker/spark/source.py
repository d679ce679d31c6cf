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
from pylogbroker.spark.reading.schema import schema_for

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType


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
        from pylogbroker.spark.reading.batch_reader import BatchReader

        return BatchReader.of(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from pylogbroker.spark.reading.stream_reader import StreamReader

        return StreamReader.of(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Raise NoBrokers if no broker can be reached."""
        from pylogbroker.spark.writing.sink import BatchWriter

        writer = BatchWriter.of(self.options, schema, overwrite)
        writer.reach()
        return writer

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from pylogbroker.spark.writing.sink import StreamWriter

        return StreamWriter.of(self.options, schema, overwrite)
