"""`pylogbroker produce`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, BinaryIO, Final

import click

from pylogbroker.cli.arguments import assignments
from pylogbroker.cli.cluster_options import Connection, cluster_options, complete_topics
from pylogbroker.cli.record_format import from_object

if TYPE_CHECKING:
    from pylogbroker.client.producer import ProducerRecord

_RECORDS_AT_ONCE: Final = 1000


@click.command("produce", short_help="Write records: lines of the standard input.")
@click.argument("topic", shell_complete=complete_topics)
@click.argument("file", type=click.File("rb"), default="-")
@click.option("-k", "--key", help="Key of all records.")
@click.option("-K", "--key-delimiter", metavar="TEXT", help="Lines are KEY, this text, VALUE.")
@click.option("-p", "--partition", type=click.IntRange(0), help="Partition; default: by key, or in turn.")
@click.option("-H", "--header", "headers", multiple=True, metavar="NAME=VALUE", help="Header of all records.")
@click.option("-Z", "--null", "nulls", is_flag=True, help="Empty keys and values are null: tombstones.")
@click.option("--json", "is_json", is_flag=True, help="Lines are objects as `consume -f json` prints them.")
@click.option("--base64", is_flag=True, help="Keys, values and headers of JSON are in Base64.")
@click.option("--file-as-value", is_flag=True, help="Write one record, with all of FILE as its value.")
@cluster_options
def command(
    topic: str,
    file: BinaryIO,
    key: str | None,
    key_delimiter: str | None,
    partition: int | None,
    headers: tuple[str, ...],
    nulls: bool,
    is_json: bool,
    base64: bool,
    file_as_value: bool,
    connection: Connection,
) -> None:
    """Write a record for each line of FILE, or of the standard input. Ends when all are acknowledged."""
    if sum((key is not None, key_delimiter is not None, is_json)) > 1:
        raise click.UsageError("give one of --key, --key-delimiter and --json")
    if key_delimiter == "":
        raise click.UsageError("--key-delimiter is empty: give the text between key and value, such as ':'")
    if base64 and not is_json:
        raise click.UsageError("--base64 needs --json: lines are written as they are")
    fixed = [(name, value.encode()) for name, value in assignments(headers, "--header").items()]
    from pylogbroker.client.producer import ProducerRecord
    from pylogbroker.client.settings import PRODUCER
    from pylogbroker.client.sync import Producer

    def records() -> Iterator[ProducerRecord]:
        lines = [file.read()] if file_as_value else (line.removesuffix(b"\n").removesuffix(b"\r") for line in file)
        for line in lines:
            if is_json:
                found_key, value, own, timestamp = from_object(line.decode("utf-8", "replace"), base64)
                yield ProducerRecord(topic, value, found_key, partition, timestamp, [*own, *fixed])
                continue
            found_key, value = _split(line, key, key_delimiter)
            if nulls:
                found_key, value = found_key or None, value or None
            yield ProducerRecord(topic, value, found_key, partition, None, fixed)

    count, given = 0, records()
    with Producer(settings=connection.settings(PRODUCER), timeout=connection.seconds) as producer:
        # Lines of a terminal leave one by one, so that an error is seen at once.
        lot = 1 if file.isatty() else _RECORDS_AT_ONCE
        while chunk := list(islice(given, lot)):
            count += len(producer.send_many(chunk))
    click.echo(f"Wrote {count} record{'s' * (count != 1)} to {topic}.", err=True)


def _split(line: bytes, key: str | None, delimiter: str | None) -> tuple[bytes | None, bytes | None]:
    if delimiter is None:
        return None if key is None else key.encode(), line
    before, found, after = line.partition(delimiter.encode())
    return (before, after) if found else (None, line)
