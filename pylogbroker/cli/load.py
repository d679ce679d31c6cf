"""`pylogbroker load`: `pylogbroker.spark.load` on the command line."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import click

from pylogbroker.cli import INTERRUPTED
from pylogbroker.cli.cluster_options import Connection, address_options
from pylogbroker.config import durations
from pylogbroker.config.units import size_in_bytes
from pylogbroker.features import on_first_use
from pylogbroker.formatting import counted

if TYPE_CHECKING:
    import pyarrow as pa

    from pylogbroker.spark import sessions
    from pylogbroker.spark.loading import load as spark_load
    from pylogbroker.spark.loading import mappings
    from pylogbroker.spark.loading.mappings import RowMapping
else:
    mappings = on_first_use("pylogbroker.spark.loading.mappings")
    pa = on_first_use("pyarrow")
    sessions = on_first_use("pylogbroker.spark.sessions")
    spark_load = on_first_use("pylogbroker.spark.loading.load")

_TYPES: Final = {
    "string": "string",
    "int": "int32",
    "long": "int64",
    "float": "float32",
    "double": "float64",
    "boolean": "bool_",
    "date": "date32",
}
_COMPRESSIONS: Final = ("none", "snappy", "gzip", "brotli", "lz4", "zstd")


def _pairs(context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    for text in texts:
        if not text.partition("=")[1]:
            raise click.BadParameter(f"{text!r}: expected NAME=VALUE")
    return {name.strip(): value for name, _, value in (text.partition("=") for text in texts)}


def _size(context: click.Context, parameter: click.Parameter, text: str) -> int:
    size = size_in_bytes(text)
    if not size:
        raise click.BadParameter(f"{text!r}: expected a size such as 64MB")
    return size


def _span(context: click.Context, parameter: click.Parameter, text: str) -> int:
    span_ms = durations.milliseconds(text.strip().lower())
    if span_ms is None:
        raise click.BadParameter(f"{text!r}: expected a time such as 12h or 7d")
    return span_ms // 1000


@click.command("load", short_help="Load new records of topics into Parquet files with Spark.")
@click.argument("topics", nargs=-1, metavar="TOPIC...")
@click.option("-t", "--to", "target", required=True, metavar="DIRECTORY", help="A path, or a URI: s3://, hdfs://, ...")
@click.option("--pattern", metavar="REGEX", help="Instead of names: all topics whose names match.")
@click.option("--since", metavar="TIME", help="Only records since: 2023-11-14T22:13:20Z, 2023-11-14, 12h (ago), ms.")
@click.option("--until", metavar="TIME", help="Stop before the first record at or after this time.")
@click.option("--replay", is_flag=True, help="Reload the files of that time, and replace them when complete.")
@click.option("--mapping", metavar="MODULE:NAME", help="A function that maps rows to other columns.")
@click.option("--json", metavar="NAME:TYPE,...", help=f"Values are JSON with these members: {', '.join(_TYPES)}, time.")
@click.option("--log-line", metavar="REGEX", help="Values are lines; named groups become columns.")
@click.option("--headers", is_flag=True, help="Add a column with the headers.")
@click.option("--option", "options", multiple=True, callback=_pairs, metavar="NAME=VALUE", help="A source option.")
@click.option("--file-size", default="128MB", callback=_size, show_default=True, help="Approximate size of a file.")
@click.option(
    "--compression", type=click.Choice(_COMPRESSIONS), default="snappy", show_default=True, help="Of the files."
)
@click.option("--keep-replaced", default="7d", callback=_span, show_default=True, help="Time to keep replaced files.")
@click.option("--master", metavar="URL", help="Spark's master; default: Spark's configuration, or local[*].")
@click.option("--conf", multiple=True, callback=_pairs, metavar="NAME=VALUE", help="Setting of Spark.")
@click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
@address_options
def command(
    topics: tuple[str, ...],
    target: str,
    pattern: str | None,
    mapping: str | None,
    json: str | None,
    log_line: str | None,
    headers: bool,
    options: dict[str, str],
    master: str | None,
    conf: dict[str, str],
    quiet: bool,
    connection: Connection,
    **others: Any,
) -> None:
    """Load new records of topics into Parquet files in a directory.

    If a load ends early, the next one continues: no record is lost or duplicated.
    """
    if bool(topics) == (pattern is not None):
        raise click.UsageError("give topic names, or --pattern")
    of_client = {f"kafka.{name}": text for name, text in connection.given.items()}
    given = {**of_client, **options, **({"includeHeaders": "true"} if headers else {})}
    function = _mapping(mapping, json, log_line)
    chosen = topics if pattern is None else _pattern(pattern)
    spark = sessions.new_session("pylogbroker load", master, conf)
    try:
        try:
            loaded = spark_load.load(
                spark,
                connection.bootstrap,
                chosen,
                target,
                mapping=function,
                options=given,
                progress=not quiet,
                **others,
            )
        finally:
            spark.stop()
    except KeyboardInterrupt:  # the last line, after what Spark says
        click.echo("Interrupted: completed files are kept. Run the same command again to continue.", err=True)
        click.get_current_context().exit(INTERRUPTED)
    click.echo(
        f"{counted(loaded.records, 'record')} in {counted(loaded.files, 'file')}, {counted(loaded.bytes, 'byte')},"
        f" {loaded.seconds:.1f} s,"
        f" lag {loaded.lag}"
    )
    for gap in loaded.gaps:
        click.echo(f"not loaded: {gap.topic}/{gap.partition}, offsets {gap.start} to {gap.end}: {gap.gap}", err=True)


def _mapping(named: str | None, json: str | None, log_line: str | None) -> RowMapping | None:
    if sum(option is not None for option in (named, json, log_line)) > 1:
        raise click.UsageError("give only one of --mapping, --json and --log-line")
    if json is not None:
        return mappings.JsonValue(_schema(json))
    if log_line is not None:
        return mappings.LogLine(log_line)
    return None if named is None else _named(named)


def _named(text: str) -> RowMapping:
    module, _, name = text.partition(":")
    sys.path.insert(0, "")  # as for `python -m`
    try:
        function: RowMapping = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise click.BadParameter(f"{text!r}: expected MODULE:NAME of a function: {error}") from error
    if not callable(function):
        raise click.BadParameter(f"{text!r} is not a function")
    return function


def _schema(text: str) -> pa.Schema:
    fields = []
    for field in text.split(","):
        name, _, kind = (part.strip() for part in field.partition(":"))
        if not name or kind not in (*_TYPES, "time"):
            raise click.BadParameter(f"--json: {field.strip()!r}: expected NAME:TYPE, of {', '.join(_TYPES)} and time")
        fields.append((name, pa.timestamp("us", tz="UTC") if kind == "time" else getattr(pa, _TYPES[kind])()))
    return pa.schema(fields)


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise click.BadParameter(f"--pattern: {text!r} is not a regular expression: {error}") from error
