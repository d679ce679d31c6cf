"""`pylogbroker txn`."""

from __future__ import annotations

import time
from typing import Any

import click

from pylogbroker.cli.cluster_names import complete_transactional_ids
from pylogbroker.cli.cluster_options import Connection, cluster_options, complete_topics
from pylogbroker.cli.output import confirm, format_option, show, yes_option
from pylogbroker.cli.topic import partitions_of
from pylogbroker.errors import ConfigError


@click.group("txn", short_help="Show transactions and their producers, and end those that hang.")
def command() -> None:
    """Show transactions and their producers, and end those that hang."""


@command.command("list", short_help="List transactional ids.")
@click.option("--state", "states", multiple=True, metavar="STATE", help="Only this state, such as Ongoing.")
@cluster_options
@format_option
def list_transactions(states: tuple[str, ...], connection: Connection, output: str) -> None:
    """List transactional ids."""
    with connection.admin() as admin:
        found = admin.transactions.list(states=states)
    rows = [
        {
            "transactional_id": each.transactional_id,
            "state": each.state,
            "producer_id": each.producer_id,
            "coordinator": each.coordinator,
        }
        for each in found
    ]
    show(rows, output)


@command.command("describe", short_help="Show the state and the partitions of transactions.")
@click.argument(
    "ids", nargs=-1, required=True, metavar="TRANSACTIONAL_ID...", shell_complete=complete_transactional_ids
)
@cluster_options
@format_option
def describe(ids: tuple[str, ...], connection: Connection, output: str) -> None:
    """Show the state and the partitions of transactions."""
    with connection.admin() as admin:
        found = admin.transactions.describe(ids).values()
    rows = [
        {
            "transactional_id": each.transactional_id,
            "state": each.state,
            "producer_id": each.producer_id,
            "producer_epoch": each.producer_epoch,
            "timeout_ms": each.timeout_ms,
            "started_ms": each.start_ms,
            "partitions": [f"{topic}/{partition}" for topic, partition in each.partitions],
        }
        for each in found
    ]
    show(rows, output)


@command.command("producers", short_help="Show the producers of partitions.")
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC[:PARTITION,...]...", shell_complete=complete_topics)
@click.option("--open", "is_open", is_flag=True, help="Only those with an open transaction.")
@cluster_options
@format_option
def producers(topics: tuple[str, ...], is_open: bool, connection: Connection, output: str) -> None:
    """Show the idempotent and transactional producers of partitions, and their open transactions.

    A transaction that is open for longer than its producer's timeout hangs: `txn abort` ends it.
    """
    with connection.admin() as admin:
        found = admin.transactions.producers(partitions_of(admin, topics))
    now_ms = time.time_ns() // 1_000_000
    rows: list[dict[str, Any]] = [
        {
            "topic": topic,
            "partition": partition,
            "producer_id": each.producer_id,
            "producer_epoch": each.producer_epoch,
            "coordinator_epoch": each.coordinator_epoch,
            "last_sequence": each.last_sequence,
            "last_written_seconds_ago": None
            if each.last_timestamp is None
            else round((now_ms - each.last_timestamp) / 1000, 1),
            "transaction_start": each.transaction_start,
        }
        for (topic, partition), writers in sorted(found.items())
        for each in writers
        if each.transaction_start is not None or not is_open
    ]
    show(rows, output)


@command.command("abort", short_help="End a transaction that hangs in a partition.")
@click.argument("topic", shell_complete=complete_topics)
@click.argument("partition", type=click.IntRange(0))
@click.argument("producer_id", type=int)
@yes_option
@cluster_options
def abort(topic: str, partition: int, producer_id: int, yes: bool, connection: Connection) -> None:
    """End a transaction that hangs in a partition, by a marker that its coordinator does not send.

    Only for a transaction that the coordinator has forgotten. `txn fence` ends others.
    """
    key = (topic, partition)
    with connection.admin() as admin:
        found = [each for each in admin.transactions.producers([key])[key] if each.producer_id == producer_id]
        if not found or found[0].transaction_start is None:
            raise ConfigError(
                f"producer {producer_id} has no open transaction in {topic}/{partition}: see txn producers"
            )
        [writer] = found
        confirm(
            f"Abort the transaction of producer {producer_id} in {topic}/{partition},"
            f" which began at offset {writer.transaction_start}?",
            yes,
        )
        epoch = writer.coordinator_epoch or 0
        admin.transactions.abort(key, producer_id, writer.producer_epoch, epoch)
    click.echo(f"Aborted the transaction of producer {producer_id} in {topic}/{partition}.", err=True)


@command.command("fence", short_help="Shut out the producers of transactional ids.")
@click.argument(
    "ids", nargs=-1, required=True, metavar="TRANSACTIONAL_ID...", shell_complete=complete_transactional_ids
)
@yes_option
@cluster_options
def fence(ids: tuple[str, ...], yes: bool, connection: Connection) -> None:
    """Shut out the producers of transactional ids, and abort their open transactions."""
    with connection.admin() as admin:
        confirm(f"Shut out the producers of {', '.join(ids)}?", yes)
        admin.transactions.fence(ids)
    click.echo(f"Fenced {', '.join(ids)}.", err=True)
