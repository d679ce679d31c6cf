"""`pylogbroker sql`: queries on topics, by DuckDB."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from threading import Thread
from typing import TYPE_CHECKING, Any, Final

import attrs
import click

from pylogbroker.cli import rights
from pylogbroker.cli.cluster_options import Connection, address_options, registry_option
from pylogbroker.cli.watching import views
from pylogbroker.errors import ConfigError
from pylogbroker.extras import required_by
from pylogbroker.features import on_first_use
from pylogbroker.java.text import is_digits

if TYPE_CHECKING:
    from rich import console as rich_console
    from rich import progress as rich_progress

    from pylogbroker.cli import sql_rows
    from pylogbroker.client import settings as client_settings
    from pylogbroker.config import times
    from pylogbroker.table import errors as table_errors
    from pylogbroker.table import sql as table_sql
    from pylogbroker.table import topic_dataset
    from pylogbroker.table.sql import TopicDatabase
    from pylogbroker.table.topic_dataset import ScanObserver, TopicDataset
else:
    client_settings = on_first_use("pylogbroker.client.settings")
    rich_console = on_first_use("rich.console")
    rich_progress = on_first_use("rich.progress")
    sql_rows = on_first_use("pylogbroker.cli.sql_rows")
    table_errors = on_first_use("pylogbroker.table.errors")
    table_sql = on_first_use("pylogbroker.table.sql")
    times = on_first_use("pylogbroker.config.times")
    topic_dataset = on_first_use("pylogbroker.table.topic_dataset")

_FORMATS: Final = ("table", "json", "csv", "parquet")
_BY_REGISTRY: Final = ("avro", "protobuf", "json-schema", "auto")
_BOOTSTRAP: Final = "bootstrap.servers"
_FOLLOW_SECONDS: Final = "2"
_INTERRUPTED: Final = 130
_INTERRUPTION_SECONDS_MAX: Final = 5.0
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@click.command("sql", short_help="Query topics with SQL, by DuckDB.")
@click.argument("query")
@click.option("--since", metavar="TIME", help="Only records since: 2023-11-14T22:13:20Z, 2023-11-14, 12h (ago), ms.")
@click.option("--until", metavar="TIME", help="Stop before the first record at or after this time.")
@click.option(
    "-s",
    "--deserialize",
    "deserializers",
    multiple=True,
    metavar="[key=|value=]FORM",
    help="text (default), binary, json; with a schema registry auto (its default), avro, protobuf, json-schema.",
)
@click.option(
    "--archive",
    metavar="PLACE",
    help="Read the archive of the delete policy archive-parquet, too: a directory, its copy in s3://BUCKET/PREFIX, or"
    " iceberg://CATALOG/NAMESPACE.TABLE.",
)
@click.option(
    "--on-error", type=click.Choice(["raise", "null"]), default="raise", help="Content of another form: end, or null."
)
@click.option(
    "-f", "--format", "chosen_form", type=click.Choice(_FORMATS), help="Form of the output; of a file: its suffix."
)
@click.option("-o", "--output", "path", metavar="FILE", help="Write the rows to a file: .parquet, .csv, .json.")
@click.option(
    "--follow",
    type=click.FloatRange(0.1),
    is_flag=False,
    flag_value=_FOLLOW_SECONDS,
    metavar="[SECONDS]",
    help="Query again every two seconds, or as often as this says, until Ctrl-C.",
)
@click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
@address_options
@registry_option
@click.pass_context
def command(
    context: click.Context,
    query: str,
    since: str | None,
    until: str | None,
    deserializers: tuple[str, ...],
    archive: str | None,
    on_error: str,
    chosen_form: str | None,
    path: str | None,
    follow: float | None,
    quiet: bool,
    connection: Connection,
) -> None:
    """Query topics with SQL: each topic is a table of its name. QUERY - is read from the standard input.

    Columns: partition, offset, timestamp, key, value, headers, timestamp_type, topic. Conditions on partition, offset
    and timestamp reduce what is read.

    \b
    pylogbroker sql "FROM orders WHERE timestamp > now() - INTERVAL 1 HOUR LIMIT 5"
    pylogbroker sql -s value=json 'SELECT value.user, count(*) FROM "web.orders" GROUP BY 1'
    """
    form = _form(chosen_form, path)
    bounds = _bounds(since, until)
    options = {"on_error": on_error, "archive": archive, **_forms(deserializers, bool(connection.registry))}
    text = sys.stdin.read() if query == "-" else query
    connection.needs = {"topic": rights.Right("read", "topic")}
    with required_by("pylogbroker sql", "tables"), _explained():
        display = _display(quiet, form, path)
        database = _database(connection, {**options, **bounds}, display.observer)
        try:
            for _ in views(follow):
                _interruptible(database, lambda: _query(database, text, form, path, display))
        except KeyboardInterrupt:
            if follow is None:
                click.echo("Interrupted.", err=True)
                context.exit(_INTERRUPTED)
        finally:
            database.close()


def _interruptible(database: TopicDatabase, work: Callable[[], None]) -> None:
    """Do work of DuckDB in a thread: while DuckDB runs in the main one, Ctrl-C has to wait."""
    outcome = Future[None]()

    def run() -> None:
        try:
            work()
        except BaseException as error:
            outcome.set_exception(error)
        else:
            outcome.set_result(None)

    Thread(target=run, daemon=True).start()
    try:
        outcome.result()
    except KeyboardInterrupt:
        database.connection.interrupt()
        with suppress(BaseException):
            outcome.result(_INTERRUPTION_SECONDS_MAX)
        raise


def _query(database: TopicDatabase, text: str, form: str, path: str | None, display: _Display) -> None:
    for relation in database.run(text):
        with _naming_output(path), database.explained(text), display.shown():
            sql_rows.write(relation, form, path, display.hide)


@contextmanager
def _naming_output(path: str | None) -> Iterator[None]:
    """Name the file where the rows of a query cannot be written to it."""
    try:
        yield
    except OSError as error:
        if path is None:
            raise
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise table_errors.TableError(f"--output {path} cannot be written: {reason}") from error


@contextmanager
def _explained() -> Iterator[None]:
    """Name this command's options where records cannot be decoded."""
    try:
        yield
    except table_errors.UndecodableRecord as error:
        raise table_errors.TableError(
            f"{error.what}. --on-error null reads such contents as null; -s {error.field}=binary reads the bytes"
        ) from error


def _form(output: str | None, path: str | None) -> str:
    """Return the form of the output; raise UsageError."""
    if path is None:
        if output == "parquet":
            raise click.UsageError("--format parquet needs --output FILE: it is binary")
        return output or "table"
    _check_place(path)
    if output is not None:
        return output
    suffix = path.rpartition(".")[2].lower()
    form = {"parquet": "parquet", "csv": "csv", "json": "json"}.get(suffix)
    if form is None:
        raise click.UsageError(f"--output {path}: the suffix names no form; add --format json, csv or parquet")
    return form


def _check_place(path: str) -> None:
    """Raise UsageError for a file that cannot be written."""
    directory = os.path.dirname(path) or "."
    if os.path.isdir(path):
        raise click.UsageError(f"--output {path} is a directory; expected a file, such as {path}/rows.parquet")
    if not os.path.isdir(directory):
        raise click.UsageError(f"--output {path}: there is no directory {directory}")


def _bounds(since: str | None, until: str | None) -> dict[str, Any]:
    from_ms, until_ms = times.milliseconds("--since", since), times.milliseconds("--until", until)
    if from_ms is not None and until_ms is not None and until_ms <= from_ms:
        raise click.UsageError(f"--until {until} is not after --since {since}: there are no records between them")
    points = {"start": (since, from_ms), "end": (until, until_ms)}
    return {name: _point(text, at_ms) for name, (text, at_ms) in points.items() if text and at_ms is not None}


def _point(text: str, at_ms: int) -> str | datetime:
    """Return a bound; times before now are found again for each query."""
    return _EPOCH + timedelta(milliseconds=at_ms) if is_digits(text.strip()) else text


def _forms(options: tuple[str, ...], has_registry: bool) -> dict[str, str]:
    """Return the forms of keys and values; raise ConfigError."""
    forms = dict.fromkeys(("key", "value"), "auto" if has_registry and not options else "text")
    for option in options:
        name, equals, form = option.rpartition("=")
        if equals and name not in forms:
            raise ConfigError(f"-s: {option!r} is not accepted; expected key=FORM, value=FORM or FORM")
        if form in _BY_REGISTRY and not has_registry:
            raise ConfigError(f"-s {option} needs a schema registry: add --schema-registry http://HOST:8081")
        forms |= {name: form} if equals else dict.fromkeys(forms, form)
    return forms


def _database(connection: Connection, options: dict[str, Any], observer: ScanObserver) -> TopicDatabase:
    settings = connection.settings(client_settings.CONSUMER)
    servers = settings.pop(_BOOTSTRAP)
    settings.pop("bootstrap.connect.max.ms", None)
    with connection.admin() as admin:
        names = [topic.name for topic in admin.topics.list() if not topic.is_internal]

    def dataset_of(name: str, observer: ScanObserver) -> TopicDataset:
        return topic_dataset.dataset(
            name,
            bootstrap_servers=servers,
            settings=settings,
            schema_registry=connection.registry,
            observer=observer,
            **options,
        )

    return table_sql.TopicDatabase(names, dataset_of, observer)


@attrs.frozen(eq=False, repr=False)
class _Display:
    """Progress of scans on a terminal; it stands still while rows are written."""

    observer: ScanObserver
    _progress: rich_progress.Progress | None = None

    @contextmanager
    def shown(self) -> Iterator[None]:
        if self._progress is None:
            yield
            return
        self._progress.start()
        try:
            yield
        finally:
            self._progress.stop()

    def hide(self) -> None:
        if self._progress is not None:
            self._progress.stop()


def _display(quiet: bool, form: str, path: str | None) -> _Display:
    """Return the display of how many records are read; nothing is shown if rows of the output come meanwhile."""
    shows_rows = form != "table" and path is None and sys.stdout.isatty()
    if quiet or shows_rows or not sys.stderr.isatty():
        return _Display(topic_dataset.ScanObserver())
    columns = (
        rich_progress.TextColumn("reading"),
        rich_progress.BarColumn(),
        rich_progress.TextColumn("{task.completed:,.0f} of {task.total:,.0f} records"),
        rich_progress.TimeRemainingColumn(),
    )
    console = rich_console.Console(file=sys.stderr)
    progress = rich_progress.Progress(*columns, console=console, transient=True, redirect_stdout=False)
    task = progress.add_task("reading", total=0, visible=False)

    def plan(count: int) -> None:
        total = progress.tasks[0].total or 0
        progress.update(task, total=total + count, visible=True)

    return _Display(topic_dataset.ScanObserver(plan, lambda count: progress.advance(task, count)), progress)
