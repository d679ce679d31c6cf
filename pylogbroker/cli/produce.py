"""`pylogbroker produce`."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import click

from pylogbroker.cli.arguments import InputFile, header_assignments
from pylogbroker.cli.cluster_options import Connection, cluster_options, complete_topics, registry_option
from pylogbroker.cli.record_format import from_object
from pylogbroker.cli.topic import create_if_missing, wait_for_topics
from pylogbroker.errors import ConfigError
from pylogbroker.features import on_first_use

if TYPE_CHECKING:
    from pylogbroker.cli import line_sender, record_schemas
    from pylogbroker.cli.record_schemas import RecordEncoder, SchemaChoice
    from pylogbroker.client import producer as client_producer
    from pylogbroker.client.producer import ProducerRecord
    from pylogbroker.records import Header
else:
    client_producer = on_first_use("pylogbroker.client.producer")
    line_sender = on_first_use("pylogbroker.cli.line_sender")
    record_schemas = on_first_use("pylogbroker.cli.record_schemas")

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
    fixed = header_assignments(headers, "--header")
    encoder: RecordEncoder | None = None
    if schemas is not None:
        client = record_schemas.registry_client(connection.registry, connection.seconds)
        encoder = record_schemas.encoder_of(client, schemas, topic)
    are_tuples = not is_json and partition is None and not headers and not nulls
    if is_json:
        records_of = _of_json(topic, partition, fixed, base64, encoder)
    else:
        fixed_key, delimiter = (None if text is None else os.fsencode(text) for text in (key, key_delimiter))
        if encoder is not None:
            fixed_key = encoder.encoded("key", fixed_key)
        records_of = _of_lines(topic, partition, fixed, fixed_key, delimiter, nulls, encoder)
    with connection.admin() as admin:  # the producer would wait for the topic, or create one of a mistyped name
        if may_create:
            create_if_missing(admin, topic)
        else:
            wait_for_topics(admin, [topic])
    status = line_sender.LineSender(
        topic, file, records_of, connection, whole=file_as_value, are_tuples=are_tuples
    ).run()
    context.exit(status)


def _of_lines(
    topic: str,
    partition: int | None,
    headers: list[Header],
    key: bytes | None,
    delimiter: bytes | None,
    nulls: bool,
    encoder: RecordEncoder | None,
) -> Callable[[list[bytes]], Iterable[Any]]:
    """Return the function that makes records of lines; tuples, which cost least, where they suffice."""
    is_plain = partition is None and not headers and not nulls

    def records_with_schemas(lines: list[bytes]) -> Iterable[Any]:
        assert encoder is not None
        for line in lines:
            before, behind = (key, line) if delimiter is None else _split(line, delimiter)
            own = encoder.encoded("key", before or None if nulls else before) if delimiter is not None else key
            value = encoder.encoded("value", behind or None if nulls else behind)
            if is_plain:
                yield topic, value, own
            else:
                yield client_producer.ProducerRecord(topic, value, own, partition, None, headers)

    def records_of(lines: list[bytes]) -> Iterable[Any]:
        if is_plain and delimiter is None:
            return [(topic, line) for line in lines] if key is None else [(topic, line, key) for line in lines]
        pairs: Iterable[tuple[bytes | None, bytes | None]]
        pairs = [(key, line) for line in lines] if delimiter is None else [_split(line, delimiter) for line in lines]
        if is_plain:
            return [(topic, value, own) for own, value in pairs]
        if nulls:
            pairs = [(own or None, value or None) for own, value in pairs]
        return [client_producer.ProducerRecord(topic, value, own, partition, None, headers) for own, value in pairs]

    return records_of if encoder is None else records_with_schemas


def _of_json(
    topic: str, partition: int | None, headers: list[Header], base64: bool, encoder: RecordEncoder | None
) -> Callable[[list[bytes]], Iterable[Any]]:
    def records_of(lines: list[bytes]) -> Iterable[ProducerRecord]:
        for line in lines:
            try:
                text = line.decode()
            except UnicodeDecodeError as error:
                raise ConfigError(f"{line[:60]!r} is no record: JSON is in UTF-8: {error}") from error
            key, value, own, timestamp = from_object(text, base64, encoder.fields if encoder is not None else ())
            if encoder is not None:
                key, value = encoder.encoded("key", key), encoder.encoded("value", value)
            yield client_producer.ProducerRecord(topic, value, key, partition, timestamp, [*own, *headers])

    return records_of


def _split(line: bytes, delimiter: bytes) -> tuple[bytes | None, bytes]:
    before, separator, after = line.partition(delimiter)
    return (before, after) if separator else (None, line)
