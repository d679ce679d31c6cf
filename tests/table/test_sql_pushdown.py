"""SQL on topics, whose conditions are pushed into the read, beside the same SQL on copies of the topics in DuckDB."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import attrs
import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pylogbroker.table import connect, read_table
from pylogbroker.table.columns import COLUMNS
from pylogbroker.table.sql import new_connection
from pylogbroker.testing import Broker
from tests.spark.topics import Rec, Topics
from tests.support.examples import examples

TOPICS: Final = ("pushed", "second")
PARTITIONS: Final = 3
BATCHES: Final = 6
RECORDS: Final = 6
"""In a batch."""
NOON_MS: Final = int(datetime(2026, 1, 2, 12, tzinfo=UTC).timestamp() * 1000)
MINUTE_MS: Final = 60_000
KEYS: Final = (None, b"", b"anna", b"bert", "größer".encode())
VALUES: Final = (b'{"n": 1, "f": 1.5}', b'{"n": 20, "s": "x"}', None, b'{"n": null}', b'{"f": -3, "s": ""}')


def fill(topics: Topics, topic: str, shift: int) -> None:
    """Write batches whose times go back and forth, and transactions of which one is aborted."""
    for partition in range(PARTITIONS):
        for part in range(BATCHES):
            numbers = range(part * RECORDS, (part + 1) * RECORDS)
            topics.fill(topic, [record(partition, number, shift) for number in numbers])
            if part in (1, 3):
                topics.transaction(topic, [Rec(b"{}", b"anna", partition)] * 3, commit=part == 3)


def record(partition: int, number: int, shift: int) -> Rec:
    time_ms = NOON_MS + (number * 7 % 31 - 5 + partition) * MINUTE_MS
    headers = [("h", b"x")] if number % 3 == 0 else []
    return Rec(VALUES[number % len(VALUES)], KEYS[(number + shift) % len(KEYS)], partition, time_ms, headers)


@attrs.frozen
class Databases:
    """Topics, and copies of them as tables of DuckDB."""

    topics: Any
    tables: Any

    def outcomes(self, sql: str) -> tuple[Any, Any]:
        return outcome(self.topics, sql), outcome(self.tables, sql)


def outcome(database: Any, sql: str) -> Any:
    """Return the rows of a query, or the kind of its error."""
    try:
        return database.sql(sql).fetchall()
    except duckdb.Error as error:
        return type(error)


@pytest.fixture(scope="module")
def databases(broker: Broker) -> Databases:
    with Topics(broker.bootstrap, lambda: "pushed-transaction") as topics:
        for shift, topic in enumerate(TOPICS):
            topics.make(partitions=PARTITIONS, name=topic, retention_ms="-1")
            fill(topics, topic, shift)
    forms = {"key": "text", "value": "json"}
    tables = new_connection()
    for topic in TOPICS:
        tables.register("rows", read_table(topic, bootstrap_servers=broker.bootstrap, columns=COLUMNS, **forms))
        tables.execute(f"CREATE TABLE {topic} AS SELECT * FROM rows")
        tables.unregister("rows")
    return Databases(connect(broker.bootstrap, topics=TOPICS, **forms), tables)


COMPARISONS: Final = ("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
NUMBERS: Final = st.one_of(
    st.integers(-3, 50).map(str),
    st.sampled_from(
        ("NULL", "5.5", "-0.0", "1e30", "9223372036854775807", "9223372036854775808", "-9223372036854775809")
    ),
    st.sampled_from(
        ("'7'", "'x'", "TRUE", "7::UTINYINT", "7::HUGEINT", "'nan'::DOUBLE", "'infinity'::FLOAT", "DATE '2026-01-02'")
    ),
)
MOMENTS: Final = st.one_of(
    st.integers(-10, 35).map(lambda minutes: f"TIMESTAMPTZ '2026-01-02 12:00:00Z' + INTERVAL ({minutes}) MINUTES"),
    st.integers(0, 35).map(lambda minutes: f"'2026-01-02 14:{minutes:02}:00+02'"),
    st.integers(0, 35).map(lambda minutes: f"TIMESTAMP '2026-01-02 12:{minutes:02}:00.000001'"),
    st.integers(0, 35).map(lambda minutes: f"TIMESTAMP_NS '2026-01-02 12:{minutes:02}:00.000000001'"),
    st.integers(0, 35).map(lambda minutes: f"TIMESTAMP_S '2026-01-02 12:{minutes:02}:00'"),
    st.integers(-4000, 4000).map(lambda days: f"now() - INTERVAL ({days}) DAYS"),
    st.sampled_from(("NULL", "DATE '2026-01-02'", "'2026-01-02'", "'infinity'", "'-infinity'", "'noon'", "5")),
    st.sampled_from(("'290000-01-01'", "TIMESTAMPTZ '1900-01-01 00:00:00Z'", "'1969-12-31 23:59:59Z'", "'epoch'")),
)
TEXTS: Final = st.sampled_from(("''", "'anna'", "'b'", "'größer'", "NULL", "5", "'x'"))
LITERALS: Final = {
    "partition": NUMBERS,
    '"offset"': NUMBERS,
    "timestamp": MOMENTS,
    "key": TEXTS,
    "value.n": NUMBERS,
    "value.f": NUMBERS,
    "value.s": TEXTS,
    "topic": st.sampled_from(("'pushed'", "'second'", "'x'")),
    "timestamp_type": st.sampled_from(("'CreateTime'", "'LogAppendTime'", "NULL")),
    '"offset" + 1': NUMBERS,
    '"offset" % 4': NUMBERS,
    '-"offset"': NUMBERS,
    '"offset"::VARCHAR': TEXTS,
    "TRY_CAST(key AS INTEGER)": NUMBERS,
    "partition::DOUBLE": NUMBERS,
    "timestamp::DATE": st.sampled_from(("DATE '2026-01-02'", "'2026-01-03'")),
    "timestamp + INTERVAL 1 HOUR": MOMENTS,
    "epoch_ms(timestamp)": st.integers(-10, 35).map(lambda minutes: str(NOON_MS + minutes * MINUTE_MS)),
    "timestamp AT TIME ZONE 'Europe/Berlin'": MOMENTS,
    "len(headers)": NUMBERS,
}


@st.composite
def conditions_on_a_column(draw: st.DrawFn) -> str:
    column = draw(st.sampled_from(sorted(LITERALS)))
    literal = LITERALS[column]
    kind = draw(st.sampled_from(("compare", "compare", "compare", "turned", "between", "in", "null", "subquery")))
    if kind == "turned":
        return f"{draw(literal)} {draw(st.sampled_from(COMPARISONS))} {column}"
    if kind == "between":
        return f"{column} {draw(st.sampled_from(('', 'NOT')))} BETWEEN {draw(literal)} AND {draw(literal)}"
    if kind == "in":
        listed = ", ".join(draw(st.lists(literal, min_size=1, max_size=4)))
        return f"{column} {draw(st.sampled_from(('', 'NOT')))} IN ({listed})"
    if kind == "null":
        return f"{column} IS {draw(st.sampled_from(('', 'NOT')))} NULL"
    if kind == "subquery":
        operator = draw(st.sampled_from(("IN", "NOT IN", "= ANY", "> ALL", "<= ANY")))
        return f"{column} {operator} (SELECT {column} FROM second WHERE {draw(conditions_on_a_column())})"
    return f"{column} {draw(st.sampled_from(COMPARISONS))} {draw(literal)}"


CONDITIONS: Final = st.recursive(
    conditions_on_a_column(),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(("AND", "OR")), inner).map(lambda parts: f"({' '.join(parts)})"),
        inner.map(lambda condition: f"NOT ({condition})"),
        inner.map(lambda condition: f"coalesce({condition}, TRUE)"),
        inner.map(lambda condition: f"CASE WHEN {condition} THEN partition = 1 END"),
    ),
    max_leaves=5,
)
ROWS: Final = 'SELECT partition, "offset", timestamp, key, value FROM pushed'
QUERIES: Final = (
    ROWS + " WHERE {0} ORDER BY ALL",
    'SELECT count(*), min("offset"), max(timestamp) FROM pushed WHERE {0}',
    ROWS + ' WHERE {0} ORDER BY timestamp DESC, partition, "offset" LIMIT 5 OFFSET 1',
    ROWS + ' WHERE {0} ORDER BY "offset", partition LIMIT 3',
    "SELECT partition, count(*) FROM pushed WHERE {0} GROUP BY 1 HAVING count(*) > 3 ORDER BY 1",
    'SELECT p.key, s.key, p."offset" FROM (FROM pushed WHERE {0}) p JOIN second s USING (partition, "offset")'
    " ORDER BY ALL",
    'SELECT p.key, s.key, s."offset" FROM (FROM second WHERE partition > 1) s LEFT JOIN (FROM pushed WHERE {0}) p'
    " ON p.timestamp = s.timestamp ORDER BY ALL",
    'SELECT p."offset" FROM pushed p WHERE {0} AND EXISTS'
    ' (FROM second s WHERE s.key = p.key AND s."offset" > p."offset") ORDER BY ALL',
    "SELECT count(*) FROM (FROM pushed WHERE {0} UNION ALL FROM second WHERE {0})",
)


@given(st.sampled_from(QUERIES), CONDITIONS)
@settings(max_examples=examples(400), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_rows_are_those_without_pushdown(databases: Databases, query: str, condition: str) -> None:
    """A literal of a wrong type is an error, unless DuckDB knows from its table that it is not needed."""
    pushed, copied = databases.outcomes(query.format(condition))
    assert pushed == copied or pushed is duckdb.ConversionException
