"""`pylogbroker txn`."""

from __future__ import annotations

import time
from typing import Any

import click

from pylogbroker.cli.cluster_names import complete_transactional_ids
from pylogbroker.cli.cluster_options import Connection, cluster_options, complete_topics
from pylogbroker.cli.output import confirm, format_option, show, yes_option
from pylogbroker.cli.topic import partitions_of
from pylogbroker.cli.watching import views, watch_option
from pylogbroker.errors import ConfigError


@click.group("txn", short_help="Show transactions and their producers, and end those that hang.")
def command() -> None:
    """Show transactions and their producers, and end those that hang."""


@command.command("list", short_help="List transactional ids.")
@click.option("--state", "states", multiple=True, metavar="STATE", help="Only this state, such as Ongoing.")
@watch_option
@cluster_options
@format_option
def list_transactions(states: tuple[str, ...], watch: float | None, connection: Connection, output: str) -> None:
    """List transactional ids."""
    with connection.admin() as admin:
        for _ in views(watch):
            transactions = admin.transactions.list(states=states)
            rows = [
                {
                    "transactional_id": transaction.transactional_id,
                    "state": transaction.state,
                    "producer_id": transaction.producer_id,
                    "coordinator": transaction.coordinator,
                }
                for transaction in transactions
            ]
            show(rows, output)
            if not rows:
                connection.note_hidden(admin, "Transactional ids")


@command.command("describe", short_help="Show the state and the partitions of transactions.")
@click.argument(
    "ids", nargs=-1, required=True, metavar="TRANSACTIONAL_ID...", shell_complete=complete_transactional_ids
)
@cluster_options
@format_option
def describe(ids: tuple[str, ...], connection: Connection, output: str) -> None:
    """Show the state and the partitions of transactions."""
    with connection.admin() as admin:
        transactions = admin.transactions.describe(ids).values()
    rows = [
        {
            "transactional_id": transaction.transactional_id,
            "state": transaction.state,
            "producer_id": transaction.producer_id,
            "producer_epoch": transaction.producer_epoch,
            "timeout_ms": transaction.timeout_ms,
            "started_ms": transaction.start_ms,
            "partitions": [f"{topic}/{partition}" for topic, partition in transaction.partitions],
        }
        for transaction in transactions
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
        by_partition = admin.transactions.producers(partitions_of(admin, topics))
    now_ms = time.time_ns() // 1_000_000
    rows: list[dict[str, Any]] = [
        {
            "topic": topic,
            "partition": partition,
            "producer_id": writer.producer_id,
            "producer_epoch": writer.producer_epoch,
            "coordinator_epoch": writer.coordinator_epoch,
            "last_sequence": writer.last_sequence,
            "last_written_seconds_ago": None
            if writer.last_timestamp is None
            else round((now_ms - writer.last_timestamp) / 1000, 1),
            "transaction_start": writer.transaction_start,
        }
        for (topic, partition), writers in sorted(by_partition.items())
        for writer in writers
        if writer.transaction_start is not None or not is_open
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
        writers = [
            producer for producer in admin.transactions.producers([key])[key] if producer.producer_id == producer_id
        ]
        if not writers or writers[0].transaction_start is None:
            raise ConfigError(
                f"producer {producer_id} has no open transaction in {topic}/{partition}: see txn producers"
            )
        [writer] = writers
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
