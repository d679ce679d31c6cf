"""Spark sessions for programs that have none."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from pyspark import SparkConf
from pyspark.sql import SparkSession

from pylogbroker.errors import PylogbrokerError


class SparkNotStarted(PylogbrokerError):
    """Spark cannot start: Java is missing, or the configuration is wrong."""


def new_session(name: str, master: str | None = None, conf: Mapping[str, str] | None = None) -> SparkSession:
    """Start a session with Spark's configuration and these settings; the default master is local[*].

    Local Python workers use this interpreter, unless PYSPARK_PYTHON is set.
    """
    builder = SparkSession.builder.appName(name).config("spark.ui.showConsoleProgress", "false")
    if master or not SparkConf().contains("spark.master"):
        builder = builder.master(master or "local[*]")
        if (master or "local").startswith("local"):
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        session = builder.config(map=dict(conf or {})).getOrCreate()
    except Exception as error:  # Py4J and PySpark raise many types, with stack traces as messages
        raise SparkNotStarted(f"Spark cannot be started: {_reason(error)}") from error
    session.sparkContext.setLogLevel("ERROR")
    return session


def _reason(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines()]
    causes = [line.removeprefix(": ") for line in lines if line.startswith((": ", "Caused by: "))]
    return [type(error).__name__, *lines[:1], *causes][-1]
