"""The page about Spark: its programs run, one after the other in one session, and print what the page says."""

from __future__ import annotations

import sys

import pytest
from pyspark.sql import SparkSession

from tests.docs.page_programs import ADDRESS, ROOT, programs
from tests.support.brokers import Broker

PAGE = ROOT / "docs" / "spark.md"


def test_the_first_program_sets_the_number_of_shuffle_partitions() -> None:
    """Spark's default, 200, makes a small query take minutes."""
    assert '.config("spark.sql.shuffle.partitions", 4)' in programs(PAGE)[0].text


@pytest.mark.one_broker
def test_the_page(spark: SparkSession, broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    found = programs(PAGE)
    assert len(found) == PAGE.read_text().count("```python")
    known: dict[str, object] = {}
    for program in found:
        exec(program.text.replace(ADDRESS, broker.bootstrap), known)
        sys.stdout.flush()
        assert capsys.readouterr().out == (program.output or ""), program.text
