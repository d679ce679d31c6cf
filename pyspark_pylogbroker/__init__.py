"""Lets Spark find the data source `pylogbroker` by its name: it looks into all packages that begin with `pyspark_`."""

from pylogbroker.spark.source import PylogbrokerSource as DefaultSource

__all__ = ["DefaultSource"]
