"""Fixtures of the blocking client's tests: brokers and topics as for Spark's, which has the same client."""

from __future__ import annotations

from tests.spark.conftest import broker, broker_name, pytest_configure, pytest_generate_tests, topics

__all__ = ["broker", "broker_name", "pytest_configure", "pytest_generate_tests", "topics"]
