"""Entry point for Spark, which imports every package named `pyspark_*` to find data sources by name."""

from pylogbroker.spark.source import PylogbrokerSource as DefaultSource

__all__ = ["DefaultSource"]
