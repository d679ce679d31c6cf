"""The data source that Spark knows by the name `pylogbroker`: what it reads and writes, and who does it.

    spark.read.format("pylogbroker").option("kafka.bootstrap.servers", "one:9092").option("subscribe", "events").load()

Columns and options are those of Spark's own Kafka source; `options` says what differs.  Every process that Spark makes
for Python imports this module, so what does the work is imported when it is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )

_COLUMNS: Final = (
    StructType()
    .add("key", BinaryType())
    .add("value", BinaryType())
    .add("topic", StringType())
    .add("partition", IntegerType())
    .add("offset", LongType())
    .add("timestamp", TimestampType())
    .add("timestampType", IntegerType())
)
_HEADERS: Final = ArrayType(StructType().add("key", StringType()).add("value", BinaryType()))


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
        from pylogbroker.spark.reading import BatchReader

        return BatchReader.of(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """What reads a stream."""
        from pylogbroker.spark.streaming import StreamReader

        return StreamReader.of(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """What writes a batch."""
        from pylogbroker.spark.sink import BatchWriter

        return BatchWriter.of(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """What writes a stream."""
        from pylogbroker.spark.sink import StreamWriter

        return StreamWriter.of(self.options, schema, overwrite)


def schema_for(options: Mapping[str, str]) -> StructType:
    """The columns; headers are among them if they are asked for."""
    asked = {name.lower(): str(value).lower() for name, value in options.items()}
    columns = StructType(list(_COLUMNS.fields))
    return columns.add("headers", _HEADERS) if asked.get("includeheaders") == "true" else columns
