"""A Spark session for a program that has none."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from pyspark import SparkConf
from pyspark.sql import SparkSession

from pylogbroker.errors import PylogbrokerError


class SparkNotStarted(PylogbrokerError):
    """There is no Java, or the configuration is wrong."""


def new_session(name: str, master: str | None = None, conf: Mapping[str, str] | None = None) -> SparkSession:
    """A session as Spark's own configuration says, and these settings; local[*] if none of them says where it runs.

    Where it runs here, its processes for Python are of this interpreter, unless PYSPARK_PYTHON says otherwise.
    """
    builder = SparkSession.builder.appName(name).config("spark.ui.showConsoleProgress", "false")
    if master or not SparkConf().contains("spark.master"):
        builder = builder.master(master or "local[*]")
        if (master or "local").startswith("local"):
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        session = builder.config(map=dict(conf or {})).getOrCreate()
    except Exception as error:  # of many kinds, and most of them say it in many lines
        raise SparkNotStarted(f"Spark cannot be started: {_reason(error)}") from error
    session.sparkContext.setLogLevel("ERROR")
    return session


def _reason(error: Exception) -> str:
    """What is wrong, of all the lines that Java says it in."""
    lines = [line.strip() for line in str(error).splitlines()]
    causes = [line.removeprefix(": ") for line in lines if line.startswith((": ", "Caused by: "))]
    return [type(error).__name__, *lines[:1], *causes][-1]
