"""Spark reads, streams, writes and loads.

Spark finds the data source `pylogbroker` by itself where this package is installed (`pyspark_pylogbroker`); where it is
not looked for, `register` tells a session of it.  `load` loads topics into Parquet files, and `loaded` gives what has
been loaded.  What does the work is imported when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pylogbroker.spark.loading.load import Loaded, load, loaded
    from pylogbroker.spark.loading.mapping import JsonValue, LogLine
    from pylogbroker.spark.loading.progress import Progress

__all__ = ["JsonValue", "Loaded", "LogLine", "Progress", "load", "loaded", "register"]

_ROOMS: Final = {
    "JsonValue": "loading.mapping",
    "Loaded": "loading.load",
    "LogLine": "loading.mapping",
    "Progress": "loading.progress",
    "load": "loading.load",
    "loaded": "loading.load",
}


def register(spark: SparkSession) -> None:
    """Let a session know the data source `pylogbroker`."""
    from pylogbroker.spark.source import PylogbrokerSource

    spark.dataSource.register(PylogbrokerSource)


def __getattr__(name: str) -> Any:
    if name not in _ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_ROOMS[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
