"""One Spark session of two threads for all tests of a process, since its start takes seconds.

It knows both sources, `pylogbroker` and Spark's own `kafka`. A plugin of pytest.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.peers import available as java_available

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session; its processes for Python are of this interpreter."""
    if not java_available():
        pytest.skip("Java and Maven are not installed")
    from pyspark.sql import SparkSession

    from tests.peers.maven import jars
    from tests.peers.spark import java_options

    directory = tmp_path_factory.mktemp("spark")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.jars": ",".join(map(str, jars("spark-kafka"))),
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": " ".join(java_options()),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": str(directory / "local"),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.metricsEnabled": "false",
    }
    session = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
