"""`pylogbroker produce`."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import click

from pylogbroker.cli.arguments import InputFile, header_assignments
from pylogbroker.cli.cluster_options import Connection, cluster_options, complete_topics, registry_option
from pylogbroker.cli.topic import create_if_missing, partitions_of, wait_for_topics
from pylogbroker.features import on_first_use

if TYPE_CHECKING:
    from pylogbroker.cli import line_records, line_sender, record_schemas, registry_address, rights
    from pylogbroker.cli.line_records import Columnize
    from pylogbroker.cli.record_format import Parsed
    from pylogbroker.cli.record_schemas import RecordEncoder, SchemaChoice
else:
    line_sender = on_first_use("pylogbroker.cli.line_sender")
    line_records = on_first_use("pylogbroker.cli.line_records")
    record_schemas = on_first_use("pylogbroker.cli.record_schemas")
    registry_address = on_first_use("pylogbroker.cli.registry_address")
    rights = on_first_use("pylogbroker.cli.rights")

_STRATEGIES: Final = ("topic", "record", "topic-record")
_CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")


def schema_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Pass the options about schemas as `choose_schemas`, which makes a SchemaChoice."""

    @click.option(
        "--value-schema", metavar="SCHEMA", help="Values are JSON: an id, latest, SUBJECT:VERSION, or a file."
    )
    @click.option("--key-schema", metavar="SCHEMA", help="Schema of keys, which are JSON then.")
    @click.option("--register", "may_register", is_flag=True, help="Register the schema of a file.")
    @click.option(
        "--subject-strategy",
        type=click.Choice(_STRATEGIES),
        default="topic",
        show_default=True,
        help="Names of subjects.",
    )
    @click.option("--message", default="", metavar="NAME", help="Message of the values' Protobuf; default: the first.")
    @click.option(
        "--schema-reference", "references", multiple=True, metavar="NAME=SUBJECT:VERSION", help="What a file refers to."
    )
    @functools.wraps(function)
    def with_schemas(
        *arguments: Any,
        value_schema: str | None,
        key_schema: str | None,
        may_register: bool,
        subject_strategy: str,
        message: str,
        references: tuple[str, ...],
        **others: Any,
    ) -> Any:
        schemas: SchemaChoice | None = None
        if value_schema is not None or key_schema is not None:
            schemas = record_schemas.SchemaChoice(
                key_schema, value_schema, subject_strategy, may_register, message, references
            )
        elif may_register or message or references:
            raise click.UsageError("--register, --message and --schema-reference need --value-schema or --key-schema")
        return function(*arguments, schemas=schemas, **others)

    return with_schemas


@click.command("produce", short_help="Write records: lines of the standard input.")
@click.argument("topic", shell_complete=complete_topics)
@click.argument("file", type=InputFile(), default="-")
@click.option("-k", "--key", help="Key of all records.")
@click.option("-K", "--key-delimiter", metavar="TEXT", help="Lines are KEY, this text, VALUE.")
@click.option("-p", "--partition", type=click.IntRange(0), help="Partition; default: by key, or in turn.")
@click.option("-H", "--header", "headers", multiple=True, metavar="NAME=VALUE", help="Header of all records.")
@click.option("-Z", "--null", "nulls", is_flag=True, help="Empty keys and values are null: tombstones.")
@click.option("-l", "--file", "named_file", type=InputFile(), metavar="FILE", help="The same as the argument FILE.")
@click.option("-z", "--compression", type=click.Choice(_CODECS), help="Compression of batches; default: none.")
@click.option("-a", "--acks", type=click.Choice(("all", "1", "0")), help="Replicas to wait for; default: all.")
@click.option("--json", "is_json", is_flag=True, help="Lines are objects as `consume -f json` prints them.")
@click.option("-f", "--format", "form", type=click.Choice(("lines", "json")), help="json is the same as --json.")
@click.option("--base64", is_flag=True, help="Keys, values and headers of JSON are in Base64.")
@click.option("--create", "may_create", is_flag=True, help="Create the topic if it is missing.")
@click.option("--file-as-value", is_flag=True, help="Write one record, with all of FILE as its value.")
@cluster_options
@registry_option
@schema_options
@click.pass_context
def command(
    context: click.Context,
    topic: str,
    file: BinaryIO,
    key: str | None,
    key_delimiter: str | None,
    partition: int | None,
    headers: tuple[str, ...],
    nulls: bool,
    named_file: BinaryIO | None,
    compression: str | None,
    acks: str | None,
    is_json: bool,
    form: str | None,
    base64: bool,
    may_create: bool,
    file_as_value: bool,
    schemas: SchemaChoice | None,
    connection: Connection,
) -> None:
    """Write a record for each line of FILE, or of the standard input, as it comes.

    Lines end with LF alone: CR is part of the value. Ends when all records are acknowledged. Ctrl-C and SIGTERM end the
    reading, not the sending.
    """
    is_json = is_json or form == "json"
    if named_file is not None:
        if context.get_parameter_source("file") is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError("give FILE or --file")
        file = named_file
    if sum((key is not None, key_delimiter is not None, is_json)) > 1:
        raise click.UsageError("give one of --key, --key-delimiter and --json")
    if key_delimiter == "":
        raise click.UsageError("--key-delimiter is empty: give the text between key and value, such as ':'")
    if base64 and not is_json:
        raise click.UsageError("--base64 needs --json: lines are written as they are")
    target = line_records.Target(topic, partition, tuple(header_assignments(headers, "--header")))
    encoder: RecordEncoder | None = None
    if schemas is not None:
        named = registry_address.with_cluster_registry(connection)
        client = record_schemas.registry_client(named.registry, named.seconds)
        encoder = record_schemas.encoder_of(client, schemas, topic)
    fixed_key, delimiter = (None if text is None else os.fsencode(text) for text in (key, key_delimiter))
    columns_of = _of_json(base64, encoder) if is_json else _of_lines(fixed_key, delimiter, nulls=nulls, encoder=encoder)
    write = rights.Right("write", "topic", topic)
    connection.needs = {"topic": write, "cluster": write}  # the cluster's error: no idempotent writes without a topic
    with connection.admin() as admin:  # the producer would wait for the topic, or create one of a mistyped name
        if may_create:
            create_if_missing(admin, topic)
        else:
            wait_for_topics(admin, [topic])
        if partition is not None:
            partitions_of(admin, [f"{topic}:{partition}"])
    with connection.explained():
        status = line_sender.LineSender(target, file, columns_of, connection, whole=file_as_value).run()
    context.exit(status)


def _of_lines(key: bytes | None, delimiter: bytes | None, *, nulls: bool, encoder: RecordEncoder | None) -> Columnize:
    if encoder is None:
        return functools.partial(line_records.columns_of_lines, key=key, delimiter=delimiter, nulls=nulls)
    fixed_key = encoder.encoded("key", key)

    def rows(lines: list[bytes]) -> Iterator[Parsed]:
        plain = line_records.columns_of_lines(lines, delimiter=delimiter, nulls=nulls)
        for own, value, _, _ in plain.rows():
            encoded_key = fixed_key if delimiter is None else encoder.encoded("key", own)
            yield encoded_key, encoder.encoded("value", value), (), None

    return lambda lines: line_records.columns_of_rows(rows(lines))


def _of_json(base64: bool, encoder: RecordEncoder | None) -> Columnize:
    if encoder is None:
        return functools.partial(line_records.columns_of_json, base64=base64)

    def rows(lines: list[bytes]) -> Iterator[Parsed]:
        for line in lines:
            key, value, headers, timestamp = line_records.row_of_json(line, base64, encoder.fields)
            yield encoder.encoded("key", key), encoder.encoded("value", value), headers, timestamp

    return lambda lines: line_records.columns_of_rows(rows(lines))
