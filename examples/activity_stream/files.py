"""Load the three topics into Parquet files: lines parsed into columns, counts unchanged."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import attrs
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from examples.activity_stream.lines import FIELDS
from pylogbroker.spark import JsonValue, RowMapping, load

_TIME: Final = pa.timestamp("us", tz="UTC")

LINES: Final = attrs.evolve(FIELDS, keep=("partition", "offset", "key"))
VIEWS: Final = JsonValue(pa.schema([("page", pa.string()), ("minute", _TIME), ("views", pa.int64())]))
VISITS: Final = JsonValue(
    pa.schema(
        [("client", pa.string()), ("start", _TIME), ("end", _TIME), ("requests", pa.int64()), ("views", pa.int64())]
    )
)


@attrs.frozen
class Files:
    """DataFrames of the loaded files."""

    lines: DataFrame
    views: DataFrame
    visits: DataFrame


def load_all(spark: SparkSession, bootstrap: str, topics: Mapping[str, str], target: Path) -> Files:
    """Load new records of the topics. A repeated call loads later records."""
    mappings: dict[str, RowMapping] = {"lines": LINES, "views": VIEWS, "visits": VISITS}
    frames = {
        name: load(spark, bootstrap, topics[name], target / name, mapping=mapping).frame
        for name, mapping in mappings.items()
    }
    return Files(**frames)
