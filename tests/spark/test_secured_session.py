"""A Spark session on a listener with TLS and SASL: rows are written and read, and wrong credentials are an error."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.clients.test_sasl import sasl_broker


def test_rows_are_written_and_read(spark: SparkSession, tmp_path: Path) -> None:
    with sasl_broker(tmp_path) as broker:
        files = broker.files("SASL_SSL", "SCRAM-SHA-512")
        options = {f"kafka.{name}": text for name, text in files.items()}
        rows = spark.createDataFrame([(f"value {number}",) for number in range(100)], "value string")
        rows.write.format("pylogbroker").options(**options, topic="spark").mode("append").save()
        reader = spark.read.format("pylogbroker").option("subscribe", "spark")
        found = reader.options(**options).load().selectExpr("cast(value as string)").collect()
        assert sorted(row.value for row in found) == sorted(f"value {number}" for number in range(100))
        with pytest.raises(PySparkException, match="invalid credentials with SASL mechanism") as failed:
            reader.options(**options).option("kafka.sasl.password", "guessed").load().collect()
        assert "guessed" not in str(failed.value)
