"""SQL on topics, by DuckDB.

    database = connect("127.0.0.1:9092")
    database.sql("SELECT key, count(*) FROM orders WHERE timestamp > now() - INTERVAL 1 HOUR GROUP BY key")

Each topic is a table of its name; names with other characters than letters, digits and _ need double quotes. DuckDB
asks for the columns that a query uses, and for its conditions: `pushdown` has those that reduce reads.

`offset` is a word of SQL, too: as a column, it is `"offset"`. `TopicDatabase` accepts it without quotes in a query that
cannot be parsed otherwise.
"""

from __future__ import annotations

import re
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import duckdb
import pyarrow as pa

from pylogbroker.blocking.cluster import BlockingCluster
from pylogbroker.client.metadata import TopicInfo
from pylogbroker.errors import ConfigError
from pylogbroker.features import on_first_use
from pylogbroker.table.errors import TableError
from pylogbroker.table.sql_hints import explained
from pylogbroker.table.topic_dataset import ScanObserver, TopicDataset, dataset
from pylogbroker.table.topic_source import settings_of

if TYPE_CHECKING:
    from pylogbroker.table.archive import archives
else:
    archives = on_first_use("pylogbroker.table.archive.archives")

_WORD: Final = re.compile(r"[\w.-]+")
_LISTING: Final = re.compile(r"\b(show|describe|information_schema|duckdb_(tables|views|columns))\b", re.IGNORECASE)
_LISTED_MAX: Final = 1000

DatasetOf = Callable[[str, ScanObserver], TopicDataset]
_OF_BINDING: Final = (duckdb.BinderException, duckdb.CatalogException)


class SqlError(TableError):
    """A query that DuckDB rejects; the text has the line, with a mark below the place."""


class TopicDatabase:
    """DuckDB, and the topics that queries name.

    `dataset_of` makes the dataset of a topic with an observer.
    """

    def __init__(self, names: Iterable[str], dataset_of: DatasetOf, observer: ScanObserver | None = None) -> None:
        self.connection = new_connection()
        self._parser = duckdb.connect()  # without tables: names of those that exist are not listed
        self._names = frozenset(names)
        self._dataset_of = dataset_of
        self._observer = observer or ScanObserver()
        self._registered: dict[str, str] = {}

    def close(self) -> None:
        self.connection.close()
        self._parser.close()

    def run(self, sql: str) -> Iterator[Any]:
        """Run statements one after the other; yield the relation of each that has a result.

        Raise SqlError, also when the rows of a relation are read within `explained`.
        """
        self._observer.errors.clear()
        text = self._parsed(sql)
        for name in self._named_in(text):
            self._register(name)
        for statement in self.connection.extract_statements(text):
            with self.explained(text):
                relation = self._relation(statement)
            if relation is not None and _has_rows(statement):
                yield relation

    def _relation(self, statement: Any) -> Any:
        try:
            return self.connection.sql(statement.query)
        except _OF_BINDING:
            self.connection.execute(statement)  # fails likewise, and the text of that error has the line
            raise

    @contextmanager
    def explained(self, sql: str) -> Iterator[None]:
        """Raise errors of scans as they were, and errors of DuckDB as SqlError.

        Some reach the caller through a stream of Arrow, which has types of its own, also OSError.
        """
        try:
            yield
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            if self._observer.errors:
                raise self._observer.errors[0] from error
            if isinstance(error, OSError):
                raise
            raise self._explanation(sql, error) from error

    def _parsed(self, sql: str) -> str:
        """Return a query that can be parsed, perhaps with quotes around the column offset."""
        if not sql.strip():
            raise SqlError("the query is empty; expected SQL such as SELECT * FROM orders LIMIT 10")
        try:
            self.connection.extract_statements(sql)
        except duckdb.Error as error:
            quoted = with_quoted_offsets(sql)
            try:
                self.connection.extract_statements(quoted)
            except duckdb.Error:
                raise self._explanation(sql, error) from error
            return quoted
        return sql

    def _named_in(self, sql: str) -> list[str]:
        """Return the topics that a query may name; raise SqlError for names that differ in case alone."""
        if _LISTING.search(sql) and len(self._names) <= _LISTED_MAX:
            named = set(self._names)
        else:
            tables = self._tables_of(sql)
            named = {name for name in self._names if name.lower() in tables}
        exact: dict[str, str] = {}
        for name in sorted(named, key=lambda name: name not in sql):
            other = exact.setdefault(name.lower(), name)
            if other != name and name in sql:
                raise SqlError(f"the topics {other} and {name} are one name in SQL: read one of them by read_table")
        return sorted(exact.values())

    def _tables_of(self, sql: str) -> set[str]:
        """Return the tables that statements name, in lower case; all words of a statement that DuckDB cannot bind."""
        tables: set[str] = set()
        for statement in self.connection.extract_statements(sql):
            try:
                tables |= self._parser.get_table_names(statement.query)
            except duckdb.Error:
                tables.update(_WORD.findall(statement.query))
        return {name.lower() for name in tables}

    def _register(self, name: str) -> None:
        if self._registered.get(name.lower()) != name:
            topic = self._dataset_of(name, self._observer)
            topic.sample()
            self.connection.register(name, topic)
            self._registered[name.lower()] = name

    def _explanation(self, sql: str, error: Exception) -> SqlError:
        text = str(error)
        head, _, place = text.partition("\n\nLINE ")
        line = f"\n\nLINE {place}" if place else ""
        return SqlError(explained(sql, head, self._names) + line)


def _has_rows(statement: Any) -> bool:
    """Return whether a statement is a query; a PIVOT is several statements for DuckDB."""
    is_query: bool = statement.expected_result_type == [duckdb.ExpectedResultType.QUERY_RESULT]
    return is_query or statement.type == duckdb.StatementType.MULTI


def new_connection() -> Any:
    """Return DuckDB in memory; times without an offset are UTC, and names in queries are never Python's variables."""
    connection = duckdb.connect(
        config={"autoinstall_known_extensions": "false", "temp_directory": tempfile.gettempdir()}
    )
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET python_enable_replacements = false")
    return connection


def with_quoted_offsets(sql: str) -> str:
    """Return a query with quotes around each `offset` that no number follows."""
    tokens = duckdb.tokenize(sql)
    pieces: list[str] = []
    done = 0
    for index, (at, kind) in enumerate(tokens):
        if kind != duckdb.token_type.keyword or sql[at : at + 6].lower() != "offset":
            continue
        if index + 1 < len(tokens) and tokens[index + 1][1] == duckdb.token_type.numeric_const:
            continue
        pieces += [sql[done:at], '"offset"']
        done = at + 6
    return "".join([*pieces, sql[done:]])


def topic_names(topics: Mapping[str, TopicInfo]) -> list[str]:
    return sorted(name for name, info in topics.items() if not info.is_internal)


def connect(
    bootstrap_servers: str | Sequence[str],
    *,
    topics: Iterable[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    **options: Any,
) -> Any:
    """Return a DuckDB connection with the topics of a cluster as tables, by default those that are not internal.

    The options are those of `read_batches`; keys and values are text by default. A topic that is made later is not
    there. Topics whose names differ in case alone are left out with a warning; naming both raises ConfigError.
    """
    values = settings_of(bootstrap_servers, settings or {}, committed=True)
    with BlockingCluster(values) as cluster:
        cluster.reach()
        names = topic_names(cluster.topics()) if topics is None else list(topics)
    if ambiguous := sorted(_ambiguous(names)):
        text = f"topics: {', '.join(ambiguous)} differ in case alone, so they are one name in SQL"
        if topics is not None:
            raise ConfigError(text)
        warnings.warn(f"{text}: none of them is a table; topics=[{ambiguous[0]!r}] makes one of it", stacklevel=2)
        names = [name for name in names if name not in ambiguous]
    given = {"key": "text", "value": "text", **options}
    if given.get("archive") is not None:
        given["archive"] = archives.open_archive(given["archive"])  # once for all topics
    connection = new_connection()
    for name in names:
        connection.register(name, dataset(name, bootstrap_servers=bootstrap_servers, settings=settings, **given))
    return connection


def _ambiguous(names: Iterable[str]) -> set[str]:
    """Return the names that differ from another one in case alone: one table would take the place of the other."""
    spellings: dict[str, set[str]] = {}
    for name in names:
        spellings.setdefault(name.lower(), set()).add(name)
    return {name for same in spellings.values() if len(same) > 1 for name in same}
