"""SQL on topics: results, what is read for them, and what is said about wrong queries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from pylogbroker.errors import ConfigError, KafkaError
from pylogbroker.table import UndecodableRecord, connect, dataset
from pylogbroker.table.sql import SqlError, TopicDatabase, with_quoted_offsets
from pylogbroker.table.topic_dataset import ScanObserver, TopicDataset
from pylogbroker.table.topic_source import TopicSource
from tests.spark.topics import Rec, Topics

Database = Callable[..., TopicDatabase]


@pytest.fixture
def database(place: dict[str, Any]) -> Iterator[Database]:
    """Return the function that opens SQL on some topics, and counts the offsets that are read."""
    opened: list[TopicDatabase] = []

    def open_on(*names: str, observer: ScanObserver | None = None, **options: Any) -> TopicDatabase:
        def dataset_of(name: str, observer: ScanObserver) -> TopicDataset:
            return dataset(name, **place, **{"key": "text", "value": "text", **options}, observer=observer)

        opened.append(TopicDatabase(names, dataset_of, observer))
        return opened[-1]

    yield open_on
    for one in opened:
        one.close()


@pytest.fixture
def orders(topics: Topics) -> str:
    """Return a topic with 600 records in three partitions, a record per minute up to now."""
    topic = topics.make(partitions=3, name=topics.fresh_name().replace("-", "_"))
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    topics.fill(
        topic,
        [
            Rec(b'{"amount": %d}' % number, b"k%d" % (number % 5), number % 3, now_ms - (600 - number) * 60_000)
            for number in range(600)
        ],
    )
    return topic


def rows(database: TopicDatabase, sql: str) -> list[tuple[Any, ...]]:
    fetched: list[tuple[Any, ...]] = []
    for relation in database.run(sql):
        with database.explained(sql):
            fetched += relation.fetchall()
    return fetched


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT count(*) FROM {}", [(600,)]),
        ("SELECT partition, count(*) FROM {} GROUP BY ALL ORDER BY ALL", [(0, 200), (1, 200), (2, 200)]),
        ("SELECT max(offset), min(o.offset) FROM {} o", [(199, 0)]),
        ("SELECT partition, offset FROM {} WHERE offset >= 198 ORDER BY ALL LIMIT 2 OFFSET 1", [(0, 199), (1, 198)]),
        ("SELECT sum((value->>'$.amount')::int) FROM {} WHERE key = 'k1'", [(sum(range(1, 600, 5)),)]),
        ("SELECT value FROM {} WHERE partition = 2 AND offset = 10", [('{"amount": 32}',)]),
        ("SELECT count(*) FROM {} WHERE timestamp > now() - INTERVAL 1 HOUR", [(59,)]),
        ("SELECT count(*) FROM {} WHERE timestamp < now() - INTERVAL '540.5 minutes'", [(60,)]),
        ("SELECT DISTINCT topic FROM {0}", None),
        ("SELECT count(*) FROM {} WHERE headers IS NULL AND timestamp_type = 'CreateTime'", [(600,)]),
        ('WITH t AS (FROM {0}) SELECT count(*) FROM t JOIN {0} o USING (partition, "offset")', [(600,)]),
        ("CREATE TABLE x AS SELECT 1 AS a; SELECT a FROM x; SELECT 2", [(1,), (2,)]),
        ("SELECT count(*) FROM (SHOW TABLES)", [(1,)]),
    ],
    ids=str,
)
def test_results(database: Database, orders: str, sql: str, expected: Any) -> None:
    assert rows(database(orders), sql.format(orders)) == (expected or [(orders,)])


def test_json_as_columns(database: Database, orders: str) -> None:
    opened = database(orders, value="json")
    assert rows(opened, f"SELECT max(value.amount) FROM {orders} WHERE value.amount < 100") == [(99,)]


@pytest.mark.parametrize(
    ("condition", "read"),
    [
        ("offset >= 190", 30),
        ("partition = 1 AND offset < 5", 5),
        ("timestamp > now() - INTERVAL 30 MINUTES", 30),
        ("offset = 7 OR (partition = 2 AND offset = 9)", 5),
        ("offset > 1000", 0),
    ],
)
def test_only_what_a_condition_needs_is_read(database: Database, orders: str, condition: str, read: int) -> None:
    """Small topics: batches that begin earlier are fetched, but their records are not counted."""
    passed: list[int] = []
    planned: list[int] = []
    opened = database(orders, observer=ScanObserver(planned=planned.append, passed=passed.append))
    rows(opened, f"SELECT value FROM {orders} WHERE {condition}")
    assert sum(planned) == pytest.approx(read, abs=3)
    assert sum(passed) <= sum(planned)


def test_a_limit_ends_the_read(database: Database, topics: Topics) -> None:
    topic = topics.make(name=topics.fresh_name().replace("-", "_"))
    for _ in range(15):
        topics.fill(topic, [Rec(bytes(1_000_000).replace(b"\0", b"x")) for _ in range(6)], message_max_bytes=2_000_000)
    passed: list[int] = []
    opened = database(topic, observer=ScanObserver(passed=passed.append))
    assert len(rows(opened, f"SELECT value FROM {topic} LIMIT 3")) == 3
    assert sum(passed) < 60


def test_columns_that_are_not_used_are_not_decoded(database: Database, topics: Topics) -> None:
    topic = topics.make(name=topics.fresh_name().replace("-", "_"))
    topics.fill(topic, [Rec(b"\xff")])
    opened = database(topic)
    assert rows(opened, f"SELECT offset FROM {topic}") == [(0,)]
    with pytest.raises(UndecodableRecord, match=f'{topic}/0, offset 0: .*value="binary"'):
        rows(opened, f"SELECT value FROM {topic}")
    assert rows(opened, f"SELECT value FROM {topic} WHERE offset > 0") == []


def test_each_query_reads_what_there_is_by_then(database: Database, topics: Topics, orders: str) -> None:
    opened = database(orders)
    assert rows(opened, f"SELECT count(*) FROM {orders}") == [(600,)]
    topics.fill(orders, [Rec(b"one more")])
    assert rows(opened, f"SELECT count(*) FROM {orders}") == [(601,)]


def test_names_with_dots_and_hyphens_are_quoted(database: Database, topics: Topics) -> None:
    name = f"web.clicks-{topics.fresh_name()}"
    topics.make(name=name)
    opened = database(name)
    assert rows(opened, f'SELECT count(*) FROM "{name}"') == [(0,)]
    with pytest.raises(SqlError, match=f'The name {name} needs quotes: "{name}"\n\nLINE 1'):
        rows(opened, f"SELECT count(*) FROM {name}")


def test_names_that_differ_in_case_alone(database: Database, topics: Topics, place: dict[str, Any]) -> None:
    lower = topics.make(name=topics.fresh_name().replace("-", "_").lower())
    upper = topics.make(name=lower.upper())
    topics.fill(upper, [Rec(b"v")])
    opened = database(lower, upper)
    assert rows(opened, f"SELECT count(*) FROM {lower}") == [(0,)]
    assert rows(opened, f"SELECT count(*) FROM {upper}") == [(1,)]
    with pytest.raises(SqlError, match="are one name in SQL"):
        rows(opened, f"SELECT * FROM {lower}, {upper}")
    with pytest.raises(ConfigError, match=f"topics: {upper}, {lower} differ in case alone, so they are one name"):
        connect(place["bootstrap_servers"], topics=[lower, upper])
    with pytest.warns(UserWarning, match=f"{upper}, {lower} differ in case alone.*: none of them is a table"):
        connection = connect(place["bootstrap_servers"])
    with pytest.raises(duckdb.CatalogException):
        connection.sql(f"FROM {lower}")
    connect(place["bootstrap_servers"], topics=[lower]).sql(f"FROM {lower}")


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT * FROM order", 'syntax error at or near "order"\nThe topic order has the name of a word of SQL'),
        (
            "SELECT valeu FROM orders",
            "no column 'valeu'; did you mean value\\?\nTopics have partition, offset",
        ),
        ("DELETE FROM orders", "SQL only reads topics"),
        ("INSERT INTO orders VALUES (1)", "SQL only reads topics"),
        ("UPDATE orders SET value = 1", "SQL only reads topics"),
        ("SELECT sum(key) FROM orders", "Candidate functions:\n    sum"),
        (
            "SELECT * FROM orderz",
            r"no topic or table 'orderz'; did you mean order or orders\?\n\nLINE 1: SELECT .*\n *\^",
        ),
        ("SELECT * FROM zzzzzzz", "`pylogbroker topic list` lists topics"),
        ("SELECT nothing FROM (SELECT 1 AS a)", r'"nothing" not found(.|\n)*LINE 1(.|\n)*\^'),
        ("SELCT 1", r"syntax error at or near \"SELCT\"\n\nLINE 1: SELCT 1\n *\^"),
        ("SELECT 'a'::int", "Could not convert string 'a' to INT32"),
        (" ", "the query is empty"),
        ("SELECT offset +", "syntax error"),
    ],
)
def test_wrong_queries_are_explained(database: Database, sql: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        rows(database("orders", "order"), sql)


def test_a_topic_whose_name_is_part_of_a_word_is_not_read(database: Database, orders: str) -> None:
    """Topics that do not exist fail where they are read."""
    part = orders[:-1]
    made = database(orders, part, "count", value="json")
    assert rows(made, f"SELECT count(*) FROM {orders}") == [(600,)]
    with pytest.raises(KafkaError, match="there is no topic 'count'"):
        rows(made, "SELECT * FROM count")


@pytest.mark.parametrize("kind", [duckdb.Error, pa.ArrowInvalid, OSError])
def test_an_error_of_a_scan_is_raised_as_it_was(database: Database, kind: type[Exception]) -> None:
    """Engines wrap it in errors of their own, by when it comes."""
    observer = ScanObserver()
    opened = database("orders", observer=observer)
    observer.errors.append(UndecodableRecord("orders/0, offset 5: oh", "value"))
    with pytest.raises(UndecodableRecord, match="offset 5"), opened.explained("SELECT 1"):
        raise kind("reading the stream failed")


def test_an_error_before_a_scan_is_raised_as_it_was(
    database: Database, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise KafkaError("no broker answers")

    opened = database(orders)
    monkeypatch.setattr(TopicSource, "plan", fail)
    with pytest.raises(KafkaError, match=r"^no broker answers"):
        rows(opened, f"SELECT * FROM {orders}")


def test_an_error_of_the_output_is_no_error_of_a_query(database: Database) -> None:
    with pytest.raises(OSError, match="disk full"), database("orders").explained("SELECT 1"):
        raise OSError("disk full")


@pytest.mark.parametrize(
    ("sql", "quoted"),
    [
        ("select offset from t", 'select "offset" from t'),
        (
            "select a.OFFSET, 'offset', \"offset\" from t limit 1 offset 5",
            'select a."offset", \'offset\', "offset" from t limit 1 offset 5',
        ),
        ("where offset > 5 -- offset\n", 'where "offset" > 5 -- offset\n'),
    ],
)
def test_offset_is_quoted_where_it_is_a_column(sql: str, quoted: str) -> None:
    assert with_quoted_offsets(sql) == quoted


def test_an_error_of_a_scan_has_no_stack_of_this_package(topics: Topics, place: dict[str, Any]) -> None:
    topic = topics.make()
    topics.fill(topic, [Rec(b"\xff")])
    connection = connect(place["bootstrap_servers"], topics=[topic])
    with pytest.raises(duckdb.Error, match=r'offset 0: the value cannot be decoded: .* value="binary"') as caught:
        connection.sql(f'FROM "{topic}"').fetchall()
    assert str(caught.value).count('.py"') == 1


@pytest.mark.filterwarnings("ignore:topics. .* differ in case alone")
def test_a_connection_for_programs(orders: str, place: dict[str, Any]) -> None:
    connection = connect(place["bootstrap_servers"], topics=[orders], value="json")
    assert connection.sql(f"SELECT sum(value.amount) FROM {orders}").fetchall() == [(sum(range(600)),)]
    connection = connect(place["bootstrap_servers"])
    assert (orders,) in connection.sql("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()


def test_polars_pushes_into_a_dataset(orders: str, place: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[int] = []
    rows_of = TopicSource.rows

    def counted(self: TopicSource, plan: Any, columns: Any) -> Any:
        plans.append(len(plan))
        return rows_of(self, plan, columns)

    monkeypatch.setattr(TopicSource, "rows", counted)
    topic = dataset(orders, **place)
    frame = pl.scan_pyarrow_dataset(topic).filter((pl.col("offset") >= 195) & (pl.col("partition") == 0))
    assert frame.select("offset").collect()["offset"].to_list() == [195, 196, 197, 198, 199]
    assert plans == [5]
    condition = ds.field("offset") < 2
    assert topic.scanner(["partition", "offset"], condition).count_rows() == 6
    assert topic.scanner(["key"], condition).head(1).to_pylist() == [{"key": b"k0"}]
