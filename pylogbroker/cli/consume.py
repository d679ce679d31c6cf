"""`pylogbroker consume`."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import click

from pylogbroker.cli.arguments import open_output
from pylogbroker.cli.arguments import partitions as selection
from pylogbroker.cli.cluster_options import (
    Connection,
    cluster_options,
    complete_groups,
    complete_topics,
    registry_option,
)
from pylogbroker.cli.output import note
from pylogbroker.cli.partition_reader import PartitionReader
from pylogbroker.cli.record_format import column_formatter, formatter
from pylogbroker.cli.topic import known_offsets, partitions_of, wait_for_topics
from pylogbroker.errors import ConfigError, PylogbrokerError
from pylogbroker.features import on_first_use

if TYPE_CHECKING:
    from pylogbroker.blocking.admin import BlockingAdmin
    from pylogbroker.cli import bulk_reader, record_schemas, registry_address, rights
    from pylogbroker.cli.record_schemas import RecordDecoder
    from pylogbroker.client import admin as admin_api
    from pylogbroker.client import messages as client_messages
    from pylogbroker.client import settings as client_settings
    from pylogbroker.client import sync
    from pylogbroker.client.messages import Message
    from pylogbroker.config import times
    from pylogbroker.interfaces import TopicPartition
    from pylogbroker.records import Header
    from pylogbroker.records.columnar import Columns

    Matches = Callable[[bytes | None, bytes | None, Iterable[Header]], bool]
else:
    bulk_reader = on_first_use("pylogbroker.cli.bulk_reader")
    client_messages = on_first_use("pylogbroker.client.messages")
    record_schemas = on_first_use("pylogbroker.cli.record_schemas")
    registry_address = on_first_use("pylogbroker.cli.registry_address")
    rights = on_first_use("pylogbroker.cli.rights")
    admin_api = on_first_use("pylogbroker.client.admin")
    client_settings = on_first_use("pylogbroker.client.settings")
    sync = on_first_use("pylogbroker.client.sync")
    times = on_first_use("pylogbroker.config.times")

_IDLE_MS: Final = 5000  # of a group, after which --exit ends
_INTERRUPTED: Final = 130
_MANY_RECORDS: Final = 5000  # whose decoding takes as long as the import of what decodes them together
_WRITTEN_AT_ONCE: Final = 10_000  # of a group's records: Ctrl-C during the writing repeats so many at most
_SCHEMA_PREFIX_BYTES: Final = 5
_STARTS: Final = {
    "beginning": "beginning",
    "earliest": "beginning",
    "start": "beginning",
    "end": "end",
    "latest": "end",
}


@click.command("consume", short_help="Print records of topics.")
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC[:PARTITION,...]...", shell_complete=complete_topics)
@click.option("-g", "--group", metavar="GROUP", shell_complete=complete_groups, help="Join this group, and commit.")
@click.option(
    "--group-protocol",
    type=click.Choice(["classic", "consumer"]),
    help="Who assigns partitions: a member (classic, the default), or the broker (consumer, KIP-848).",
)
@click.option(
    "-o", "--offset", metavar="OFFSET", help="Start: beginning (default), end, an offset, or -N: N before the end."
)
@click.option("--since", metavar="TIME", help="Start at a time: 2023-11-14T22:13:20Z, 2023-11-14, 12h (ago), ms.")
@click.option("--until", metavar="TIME", help="Stop before the first record at or after this time, or at the end.")
@click.option("-n", "--count", type=click.IntRange(1), help="Stop after so many records.")
@click.option("-e", "--exit", "to_end", is_flag=True, help="Stop at the present end; in a group: when idle for 5 s.")
@click.option("--key", metavar="REGEX", help="Only records whose key matches.")
@click.option("--grep", metavar="REGEX", help="Only records whose value matches.")
@click.option("--header", "headers", multiple=True, metavar="NAME[=VALUE]", help="Only records with this header.")
@click.option("-f", "--format", "output", default=r"%s\n", show_default=True, help="json, or kcat's letters.")
@click.option("--base64", is_flag=True, help="Keys, values and headers of JSON in Base64.")
@click.option(
    "-s",
    "--deserialize",
    "deserializers",
    multiple=True,
    metavar="[key=|value=]FORM",
    help="avro, json, protobuf, auto or none; with a schema registry, auto is the default.",
)
@cluster_options
@registry_option
@click.pass_context
def command(
    context: click.Context,
    topics: tuple[str, ...],
    group: str | None,
    group_protocol: str | None,
    offset: str | None,
    since: str | None,
    until: str | None,
    count: int | None,
    to_end: bool,
    key: str | None,
    grep: str | None,
    headers: tuple[str, ...],
    output: str,
    base64: bool,
    deserializers: tuple[str, ...],
    connection: Connection,
) -> None:
    """Print records of topics, or of some partitions, and wait for more.

    With a schema registry, keys and values of its serializers are printed as JSON: Avro, JSON Schema and Protobuf.

    Letters of --format: %t topic, %p partition, %o offset, %T timestamp, %k key, %s value, %h headers, and lengths: %K
    of the key, %S of the value. Records of open or aborted transactions come with -X isolation.level=read_uncommitted.
    """
    if group is not None and (since or until or offset not in (None, *_STARTS)):
        raise click.UsageError("a group starts at its committed offsets: --since, --until and offsets need no --group")
    if group is not None and any(":" in topic for topic in topics):
        raise click.UsageError("a group assigns the partitions itself: name topics alone, or leave --group out")
    if group is None and group_protocol is not None:
        raise click.UsageError("--group-protocol needs --group")
    if since is not None and offset is not None:
        raise click.UsageError("give --offset or --since")
    from_ms, until_ms = times.milliseconds("--since", since), times.milliseconds("--until", until)
    if from_ms is not None and until_ms is not None and until_ms <= from_ms:
        raise click.UsageError(f"--until {until} is not after --since {since}: there are no records between them")
    if base64 and output != "json":
        raise click.UsageError("--base64 needs --format json: letters print bytes as they are")
    decoder = _decoder(connection, deserializers)
    start = _start(offset)
    printer = _Printer(output, base64, _filter(key, grep, headers), count, decoder)
    connection.needs = {"topic": rights.Right("read", "topic"), "group": rights.Right("read", "group", group)}
    try:
        if group is not None:
            _print_of_group(printer, connection, topics, group, group_protocol, start, to_end)
        else:
            _print_of_partitions(printer, connection, topics, start, from_ms, until_ms, to_end)
    except KeyboardInterrupt:
        context.exit(_INTERRUPTED)
    if printer.is_empty:
        matching = " that match" if key or grep or headers else ""
        span = "".join(f" {word} {text}" for word, text in (("since", since), ("until", until)) if text)
        click.echo(f"No records{matching}{span}.", err=True)


class _LateDecoder:
    """Decodes by the registry that brokers of the cluster have, from the first content on that may have a schema."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._is_late = True
        self._decoders: list[RecordDecoder] = []

    def reads_any(self, contents: Iterable[bytes | None]) -> bool:
        """Return whether any content may have to be decoded."""
        return any(map(_may_have_schema, contents)) if self._is_late else bool(self._decoders)

    def decoded(self, message: Message) -> Message:
        if self._is_late and any(map(_may_have_schema, (message.key, message.value))):
            self._is_late = False
            with suppress(PylogbrokerError):  # records are printed as they are
                named = registry_address.with_cluster_registry(self._connection)
                client = record_schemas.registry_client(named.registry, named.seconds)
                if client is not None:
                    self._decoders.append(record_schemas.RecordDecoder.automatic(client, note))
        return self._decoders[0].decoded(message) if self._decoders else message


def _may_have_schema(content: bytes | None) -> bool:
    """Return whether content begins like that of a serializer with a schema registry."""
    return content is not None and len(content) > _SCHEMA_PREFIX_BYTES and not content[0]


def _decoder(connection: Connection, deserializers: tuple[str, ...]) -> RecordDecoder | _LateDecoder | None:
    """Return what decodes by a schema registry; raise ConfigError."""
    if not connection.registry and not deserializers:
        return _LateDecoder(connection)
    client = record_schemas.registry_client(connection.registry, connection.seconds)
    return record_schemas.decoder_of(client, deserializers, note)


class _Printer:
    """Writes the records that match, at most `count`; what is decoded is matched as JSON."""

    def __init__(
        self,
        form: str,
        base64: bool,
        matches: Matches | None,
        count: int | None,
        decoder: RecordDecoder | _LateDecoder | None,
    ) -> None:
        self.is_empty = True
        self._write, self._write_columns = formatter(form, base64), column_formatter(form, base64)
        self._matches = matches
        self._decoder = decoder
        self._left = count
        self._out = open_output()

    @property
    def is_done(self) -> bool:
        return self._left == 0

    def print(self, messages: Iterator[Message]) -> None:
        """Print messages as they come."""
        for message in messages:
            if self._write_matching(message):
                self._out.flush()
                if self.is_done:
                    return

    def print_stream(self, stream: sync.Stream) -> None:
        """Print the messages of a group's stream; only what is printed counts as read, and is committed."""
        while not self.is_done and (run := stream.next_run()):
            some = run[:_WRITTEN_AT_ONCE]
            if isinstance(some, client_messages.MessageColumns):
                read = self.print_columns(some[0].topic, some[0].partition, some.columns())
            else:
                read = self._print_messages(some)
            stream.mark_read(read)

    def _print_messages(self, messages: Iterable[Message]) -> int:
        """Print messages up to the last one that matches and is asked for; return the number of those read."""
        read = 0
        try:
            for message in messages:
                read += 1
                if self._write_matching(message) and self.is_done:
                    break
        finally:
            self._out.flush()
        return read

    def _write_matching(self, message: Message) -> bool:
        """Write a message if it matches, and return whether it does."""
        if self._decoder is not None:
            message = self._decoder.decoded(message)
        if self._matches is not None and not self._matches(message.key, message.value, message.headers):
            return False
        self._out.write(self._write(message))
        self._count(1)
        return True

    def print_columns(self, topic: str, partition: int, columns: Columns) -> int:
        """Print the records that match, as many as are asked for; return the number of those read."""
        if self._decoder is not None and self._decoder.reads_any((*columns.keys(), *columns.values())):
            return self._print_messages(client_messages.MessageColumns(topic, partition, columns, 0, len(columns)))
        read = len(columns)
        if self._matches is not None:
            fields = zip(columns.keys(), columns.values(), columns.headers(), strict=True)
            matching = bulk_reader.flags(self._matches(*record) for record in fields)
            read = bulk_reader.read_for(matching, self._left)
            columns = columns.select(matching)
        elif self._left is not None:
            read = min(read, self._left)
        if self._left is not None:
            columns = columns.select(slice(0, self._left))
        self._out.write(self._write_columns(topic, partition, columns))
        self._out.flush()
        self._count(len(columns))
        return read

    def _count(self, printed: int) -> None:
        self.is_empty = self.is_empty and not printed
        if self._left is not None:
            self._left -= printed


def _filter(key: str | None, grep: str | None, headers: tuple[str, ...]) -> Matches | None:
    """Return the function that chooses records; None for all."""
    by_key, by_value = _pattern("--key", key), _pattern("--grep", grep)
    conditions = [header.partition("=") for header in headers]
    if by_key is None and by_value is None and not conditions:
        return None

    def matches(key: bytes | None, value: bytes | None, headers: Iterable[Header]) -> bool:
        if by_key is not None and (key is None or not by_key.search(key)):
            return False
        if by_value is not None and (value is None or not by_value.search(value)):
            return False
        return all(
            any(header == name and (not equals or content == os.fsencode(text)) for header, content in headers)
            for name, equals, text in conditions
        )

    return matches


def _pattern(option: str, text: str | None) -> re.Pattern[bytes] | None:
    if text is None:
        return None
    try:
        return re.compile(os.fsencode(text))
    except re.error as error:
        raise click.BadParameter(f"{text!r} is not a regular expression: {error}", param_hint=option) from error


def _print_of_group(
    printer: _Printer,
    connection: Connection,
    topics: tuple[str, ...],
    group: str,
    protocol: str | None,
    start: str,
    to_end: bool,
) -> None:
    with connection.admin() as admin:  # the group would wait for them to be created
        wait_for_topics(admin, selection(topics, "TOPIC"))
    settings: dict[str, Any] = {
        "isolation.level": "read_committed",
        "auto.offset.reset": "latest" if _STARTS[start] == "end" else "earliest",
        **connection.settings(client_settings.CONSUMER),
        "consumer.timeout.ms": _IDLE_MS if to_end else -1,
    }
    if protocol is not None:
        settings["group.protocol"] = protocol
    with (
        connection.explained(),
        sync.ConsumerConnector(group=group, settings=settings, timeout=connection.seconds) as consumer,
    ):
        names = "|".join(map(re.escape, topics))
        [stream] = consumer.create_message_streams_by_filter(sync.Whitelist(names))
        printer.print_stream(stream)


def _print_of_partitions(
    printer: _Printer,
    connection: Connection,
    topics: tuple[str, ...],
    start: str,
    from_ms: int | None,
    until_ms: int | None,
    to_end: bool,
) -> None:
    with connection.admin() as admin:
        wait_for_topics(admin, selection(topics, "TOPIC"))
        keys = partitions_of(admin, topics)
        committed = (
            connection.settings(client_settings.CONSUMER).get("isolation.level", "read_committed") == "read_committed"
        )
        offsets = admin.records.offsets(dict.fromkeys(keys, admin_api.LATEST), committed=committed)
        latest = known_offsets(offsets)
        starts = _starts(admin, keys, start, latest) if from_ms is None else _since(admin, from_ms, latest)
        ends = latest if to_end else None
        if until_ms is not None:
            ends = _since(admin, until_ms, latest)
        starts = _print_many(printer, connection, starts, ends or latest)
        if not printer.is_done:
            printer.print(PartitionReader(connection, admin, starts, ends).messages())


def _start(offset: str | None) -> str:
    """Return where to start, checked before any broker is asked; raise ConfigError."""
    start = offset or "beginning"
    if start not in _STARTS and not re.fullmatch(r"-?\d{1,18}", start):
        others = "; times are those of --since" if "@" in start else ""
        raise ConfigError(f"--offset: {start!r} is not accepted; expected beginning, end, an offset, or -N{others}")
    return start


def _print_many(
    printer: _Printer,
    connection: Connection,
    starts: dict[TopicPartition, int],
    ends: dict[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Print the records that there are already, if they are many; return the offsets to go on from."""
    if sum(max(0, ends[key] - start) for key, start in starts.items()) < _MANY_RECORDS:
        return starts
    reader = bulk_reader.BulkReader(connection, starts, ends)
    for (topic, partition), columns in reader.columns():
        printer.print_columns(topic, partition, columns)
        if printer.is_done:
            break
    return reader.positions


def _starts(
    admin: BlockingAdmin, keys: list[TopicPartition], start: str, latest: dict[TopicPartition, int]
) -> dict[TopicPartition, int]:
    if _STARTS.get(start) == "end":
        return latest
    first = known_offsets(admin.records.offsets(dict.fromkeys(keys, admin_api.EARLIEST)))
    if start in _STARTS:
        return first
    number = int(start)
    if start.startswith("-"):
        return {key: max(latest[key] + number, first[key]) for key in keys}
    _note_missing(number, first, latest)
    return {key: min(max(number, first[key]), latest[key]) for key in keys}


def _note_missing(offset: int, first: dict[TopicPartition, int], latest: dict[TopicPartition, int]) -> None:
    """Say where partitions begin later or end earlier; raise ConfigError if all end before the offset."""
    early = [f"{topic}/{number} ends at {end}" for (topic, number), end in sorted(latest.items()) if offset > end]
    if len(early) == len(latest):
        raise ConfigError(f"--offset: there is no offset {offset} yet: {', '.join(early)}")
    late = [f"{topic}/{number} begins at {start}" for (topic, number), start in sorted(first.items()) if offset < start]
    if early or late:
        click.echo(f"Not all partitions have offset {offset}: {', '.join([*late, *early])}.", err=True)


def _since(admin: BlockingAdmin, at_ms: int, latest: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Return the first offsets at or after a time, else the ends."""
    offsets = admin.records.offsets(dict.fromkeys(latest, at_ms))
    return {key: min(offsets[key].or_end(end), end) for key, end in latest.items()}
