"""Columns of the source: those of Spark's own Kafka source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from pylogbroker.errors import ConfigError

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


def schema_for(options: Mapping[str, str]) -> StructType:
    by_name = {name.lower(): str(value).lower() for name, value in options.items()}
    columns = StructType(list(_COLUMNS.fields))
    return columns.add("headers", _HEADERS) if by_name.get("includeheaders") == "true" else columns


def check_schema(options: Mapping[str, str], schema: StructType) -> None:
    expected = schema_for(options).simpleString()
    if schema.simpleString() != expected:
        raise ConfigError(f"the columns are always {expected}: leave out schema(...), and select the ones you want")
