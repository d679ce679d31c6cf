"""`pylogbroker sql`: forms of the output, and what is said about wrong use."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from pylogbroker.cli import main, sql, sql_rows
from pylogbroker.testing import Broker
from tests.spark.topics import Rec, Topics

Command = Callable[..., Result]
NOON_MS = int(datetime(2026, 1, 2, 12, tzinfo=UTC).timestamp() * 1000)


@pytest.fixture
def run(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("PYLOGBROKER_BOOTSTRAP_SERVER", broker.bootstrap)

    def run(*arguments: object, code: int = 0, given: str = "") -> Result:
        result = CliRunner().invoke(main, ["sql", *map(str, arguments)], input=given)
        assert result.exit_code == code, result.output
        return result

    return run


@pytest.fixture
def orders(topics: Topics) -> str:
    topic = topics.make(name=topics.fresh_name().replace("-", "_"))
    topics.fill(topic, [Rec(b'{"amount": %d}' % number, b"k", 0, NOON_MS + number * 1000) for number in range(5)])
    return topic


def test_a_table(run: Command, orders: str) -> None:
    result = run(f"SELECT partition, offset, key, headers, timestamp FROM {orders} LIMIT 2")
    assert result.stdout.splitlines() == [
        "partition  offset  key  headers  timestamp",
        "        0       0  k          -  2026-01-02T12:00:00Z",
        "        0       1  k          -  2026-01-02T12:00:01Z",
    ]


def test_a_long_table_is_cut(run: Command) -> None:
    result = run("SELECT range FROM range(1001)")
    assert len(result.stdout.splitlines()) == 1001
    assert "The first 1000 rows are shown" in result.stderr
    assert "are shown" not in run("SELECT range FROM range(1000)").stderr
    assert run("SELECT 1 WHERE false").stderr == "(no rows)\n"


def test_json_and_csv(run: Command, orders: str) -> None:
    sql = f"SELECT offset, value, {{'a': [1, NULL]}} AS nested FROM {orders} ORDER BY 1"
    rows = json.loads(run(sql, "--format", "json").stdout)
    assert rows[4] == {"offset": 4, "value": '{"amount": 4}', "nested": {"a": [1, None]}}
    assert len(run(sql, "-f", "json").stdout.splitlines()) == 7
    lines = list(csv.DictReader(io.StringIO(run(sql, "--format", "csv").stdout)))
    assert lines[4] == {"offset": "4", "value": '{"amount": 4}', "nested": '{"a": [1, null]}'}
    assert json.loads(run("SELECT 1 WHERE false", "-f", "json").stdout) == []


def test_files_have_the_form_of_their_suffix(run: Command, orders: str, tmp_path: Path) -> None:
    for suffix in ("parquet", "csv", "json"):
        assert run(f"SELECT offset, timestamp FROM {orders}", "-o", tmp_path / f"rows.{suffix}").output == ""
    table = pq.read_table(tmp_path / "rows.parquet")
    assert table.column("offset").to_pylist() == [0, 1, 2, 3, 4]
    assert table.schema.field("timestamp").type == pa.timestamp("us", tz="UTC")
    assert len((tmp_path / "rows.csv").read_text().splitlines()) == 6
    assert len(json.loads((tmp_path / "rows.json").read_text())) == 5
    assert run(f"SELECT count(*) AS n FROM '{tmp_path}/rows.parquet'", "-f", "csv").stdout == "n\n5\n"


def test_columns_with_one_name_are_all_there(run: Command, tmp_path: Path) -> None:
    sql = "SELECT 1 AS a, 2 AS a, 3 AS a_1, 4 AS a"
    rows = [{"a": 1, "a_2": 2, "a_1": 3, "a_3": 4}]
    assert json.loads(run(sql, "-f", "json").stdout) == rows
    run(sql, "-o", tmp_path / "rows.parquet")
    assert pq.read_table(tmp_path / "rows.parquet").to_pylist() == rows
    assert run(sql, "-f", "csv").stdout == "a,a_2,a_1,a_3\n1,2,3,4\n"


def test_intervals_are_text_in_parquet(run: Command, tmp_path: Path) -> None:
    run("SELECT INTERVAL '1 month 2 days' AS i, NULL AS n", "-o", tmp_path / "rows.parquet")
    assert pq.read_table(tmp_path / "rows.parquet").to_pylist() == [{"i": "1 months 2 days 0:00:00", "n": None}]


def test_a_plan_is_shown_as_it_is_drawn(run: Command, orders: str) -> None:
    lines = run(f"EXPLAIN SELECT count(*) FROM {orders} WHERE offset > 1").stdout.splitlines()
    assert len(lines) > 5
    assert any("offset" in line for line in lines)


def test_a_pivot_has_rows(run: Command, orders: str) -> None:
    assert run(f"PIVOT {orders} ON key USING count(*) GROUP BY partition").stdout.splitlines() == [
        "partition  k",
        "        0  5",
    ]


def test_a_query_that_fails_leaves_the_file_as_it_was(run: Command, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("before")
    run("SELECT CASE WHEN range = 60000 THEN error('late') ELSE range END FROM range(70000)", "-o", path, code=1)
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["rows.csv"]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_file_that_cannot_be_written_is_named(run: Command, suffix: str) -> None:
    error = run("SELECT 1", "-o", f"/proc/rows.{suffix}", code=1).stderr
    assert error == f"Error: --output /proc/rows.{suffix} cannot be written: No such file or directory\n"


def test_contents_are_decoded_as_chosen(run: Command, topics: Topics, orders: str) -> None:
    query = f"SELECT sum(value.amount) AS total FROM {orders}"
    assert run("-s", "value=json", query, "-f", "csv").stdout == "total\n10\n"
    topics.fill(orders, [Rec(b"\xff\0a")])
    error = run(f"SELECT value FROM {orders}", code=1).stderr
    assert f"Error: {orders}/0, offset 5: the value cannot be decoded" in error
    assert error.endswith("--on-error null reads such contents as null; -s value=binary reads the bytes\n")
    assert run("-s", "value=json", "--on-error", "null", query, "-f", "csv").stdout == "total\n10\n"
    bytes_of = f"SELECT value FROM {orders} WHERE offset = 5"
    assert run("-s", "binary", bytes_of, "-f", "csv").stdout == "value\n\\xFF\\x00a\n"


@pytest.mark.parametrize("since", ["2026-01-02T12:00:03Z", str(NOON_MS + 3000)])
def test_since_and_until(run: Command, orders: str, since: str) -> None:
    query = f"SELECT min(offset), max(offset) FROM {orders}"
    arguments = (query, "--since", since, "--until", "2026-01-02T12:00:04Z")
    assert run(*arguments, "-f", "csv").stdout.splitlines()[1] == "3,3"


def test_a_query_from_the_standard_input(run: Command, orders: str) -> None:
    assert run("-", "-f", "csv", given=f"SELECT count(*) AS n FROM {orders};\nSELECT 1 AS m").stdout == "n\n5\nm\n1\n"


def test_follow_queries_again(run: Command, topics: Topics, orders: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def views(seconds: float | None) -> Any:
        assert seconds == 2.0
        yield
        topics.fill(orders, [Rec(b"new")])
        yield

    monkeypatch.setattr(sql, "views", views)
    assert run("--follow", "-f", "csv", f"SELECT count(*) AS n FROM {orders}").stdout == "n\n5\nn\n6\n"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("SELECT 1", "-f", "parquet"), 2, "--format parquet needs --output FILE"),
        (("SELECT 1", "-o", "rows.txt"), 2, "the suffix names no form"),
        (("SELECT 1", "--since", "1h", "--until", "2h"), 2, "--until 2h is not after --since 1h"),
        (("SELECT 1", "-s", "values=json"), 1, "-s: 'values=json' is not accepted"),
        (("SELECT * FROM {}", "-s", "yaml"), 1, "'yaml' is not accepted; expected binary, text, json"),
        (("SELECT * FROM {}", "-s", "avro"), 1, "-s avro needs a schema registry: add --schema-registry"),
        (("SELECT value.amount FROM {}",), 1, "there is no value.amount: no value that was seen is read as an object"),
        (("SELECT * FROM {}", "-s", "value=json", "-o", "/none/rows.csv"), 2, "there is no directory /none"),
        (("SELECT * FROM {}", "-o", "/tmp", "-f", "csv"), 2, "/tmp is a directory; expected a file, such as /tmp/rows"),
        (("SELECT * FROM {}x",), 1, "; did you mean {}"),
        (("SELECT * FROM",), 1, "syntax error"),
        (("SELECT 1", "-b", "127.0.0.1:1"), 1, "cannot connect to 127.0.0.1:1"),
    ],
    ids=str,
)
def test_wrong_use_is_explained(run: Command, orders: str, arguments: tuple[str, ...], code: int, message: str) -> None:
    result = run(*(text.replace("{}", orders) for text in arguments), code=code)
    assert message.replace("{}", orders) in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (math.inf, "inf"),
        (Decimal("1.50"), 1.5),
        (Decimal(2**100), 2**100),
        (Decimal("0.12345678901234567890123"), "0.12345678901234567890123"),
        (b"a\n\xff", "a\\x0A\\xFF"),
        ({1: (b"x", None)}, {"1": ["x", None]}),
        (True, True),
    ],
    ids=str,
)
def test_values_as_json_has_them(value: Any, shown: Any) -> None:
    assert sql_rows.plain(value) == shown


def test_times_that_python_does_not_have(run: Command) -> None:
    assert "12345-01-01" in run("SELECT TIMESTAMP '12345-01-01 00:00:00' AS t", "-f", "csv").stdout


def test_a_missing_package_is_named(run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)
    monkeypatch.delitem(__import__("sys").modules, "pylogbroker.table.sql", raising=False)
    result = run("SELECT 1", code=1)
    assert "pylogbroker sql needs duckdb, which is not installed (extra tables): " in result.stderr
    assert "pip install" in result.stderr
