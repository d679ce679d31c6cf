"""A Spark session for a program that has none."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from pyspark import SparkConf
from pyspark.sql import SparkSession


def new_session(name: str, master: str | None = None, conf: Mapping[str, str] | None = None) -> SparkSession:
    """A session as Spark's own configuration says, and these settings; local[*] if none of them says where it runs.

    Where it runs here, its processes for Python are of this interpreter, unless PYSPARK_PYTHON says otherwise.
    """
    builder = SparkSession.builder.appName(name).config("spark.ui.showConsoleProgress", "false")
    if master or not SparkConf().contains("spark.master"):
        builder = builder.master(master or "local[*]")
        if (master or "local").startswith("local"):
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = builder.config(map=dict(conf or {})).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
