"""Spark integration: read, stream, write and load topics.

Spark finds the data source `pylogbroker` where `pyspark_pylogbroker` is installed; elsewhere `register` adds it.
Modules are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pylogbroker.extras import required_by
from pylogbroker.features import on_first_use
from pylogbroker.lazy_names import lazy_names

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pylogbroker.spark import source as spark_source
    from pylogbroker.spark.loading.load import Loaded, load, loaded
    from pylogbroker.spark.loading.mappings import JsonValue, LogLine, RowMapping
    from pylogbroker.spark.loading.progress import Progress
else:
    spark_source = on_first_use("pylogbroker.spark.source")

__all__ = ["JsonValue", "Loaded", "LogLine", "Progress", "RowMapping", "load", "loaded", "register"]

_MODULES: Final = {
    "JsonValue": ".loading.mappings",
    "Loaded": ".loading.load",
    "LogLine": ".loading.mappings",
    "Progress": ".loading.progress",
    "RowMapping": ".loading.mappings",
    "load": ".loading.load",
    "loaded": ".loading.load",
}


def register(spark: SparkSession) -> None:
    spark.dataSource.register(spark_source.PylogbrokerSource)


_get, __dir__ = lazy_names(__name__, _MODULES)


def __getattr__(name: str) -> Any:
    with required_by(__name__):
        return _get(name)
