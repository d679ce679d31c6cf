"""`pylogbroker reassign`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from pylogbroker.cli.cluster_options import Connection, cluster_options, complete_topics
from pylogbroker.cli.output import confirm, format_option, show, yes_option
from pylogbroker.cli.topic import partitions_of
from pylogbroker.cli.watching import views, watch_option
from pylogbroker.features import on_first_use
from pylogbroker.formatting import counted

if TYPE_CHECKING:
    from pylogbroker.blocking.admin import BlockingAdmin
    from pylogbroker.cli import remote_storages
    from pylogbroker.client import admin as admin_api
    from pylogbroker.interfaces import TopicPartition
else:
    remote_storages = on_first_use("pylogbroker.cli.remote_storages")
    admin_api = on_first_use("pylogbroker.client.admin")


@click.group("reassign", short_help="Move partitions to other brokers, and elect leaders.")
def command() -> None:
    """Move partitions to other brokers, and elect leaders."""


@command.command("list", short_help="Show the moves that are under way.")
@watch_option
@cluster_options
@format_option
def list_moves(watch: float | None, connection: Connection, output: str) -> None:
    """Show the moves that are under way."""
    with connection.admin() as admin:
        for _ in views(watch):
            moves = admin.replicas.reassignments()
            rows = [
                {
                    "topic": topic,
                    "partition": partition,
                    "replicas": list(move.replicas),
                    "adding": list(move.adding),
                    "removing": list(move.removing),
                }
                for (topic, partition), move in sorted(moves.items())
            ]
            show(rows, output)


@command.command("start", short_help="Move partitions to brokers.")
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC[:PARTITION,...]...", shell_complete=complete_topics)
@click.option("--to", "brokers", required=True, metavar="BROKER,...", help="The new brokers, the first leader first.")
@yes_option
@cluster_options
@format_option
def start(topics: tuple[str, ...], brokers: str, yes: bool, connection: Connection, output: str) -> None:
    """Move partitions to brokers; with several partitions, each begins at the next broker.

    The old and the new replicas are shown first.
    """
    if not re.fullmatch(r"\d+(,\d+)*", brokers):
        raise click.BadParameter(f"{brokers!r}: expected numbers of brokers, such as 1,2,3", param_hint="--to")
    ids = [int(number) for number in brokers.split(",")]
    with connection.admin() as admin:
        keys = partitions_of(admin, topics)
        remote_storages.check_hosts(admin, {topic for topic, _ in keys}, ids)
        target = {key: _rotated(ids, number) for number, key in enumerate(keys)}
        show(_rows(admin, target), output)
        confirm("Move these replicas?", yes)
        admin.replicas.reassign(target)


def _rotated(ids: list[int], by: int) -> list[int]:
    """Rotate the brokers, so that each leads its share."""
    start = by % len(ids)
    return ids[start:] + ids[:start]


def _rows(admin: BlockingAdmin, target: dict[TopicPartition, list[int]]) -> list[dict[str, Any]]:
    topics = admin.topics.describe({topic for topic, _ in target})
    return [
        {
            "topic": topic,
            "partition": partition,
            "old_replicas": list(topics[topic].partitions[partition].replicas),
            "new_replicas": replicas,
        }
        for (topic, partition), replicas in sorted(target.items())
    ]


@command.command("cancel", short_help="Cancel moves that are under way.")
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC[:PARTITION,...]...", shell_complete=complete_topics)
@yes_option
@cluster_options
def cancel(topics: tuple[str, ...], yes: bool, connection: Connection) -> None:
    """Cancel moves that are under way; the partitions keep their old replicas."""
    with connection.admin() as admin:
        moving = admin.replicas.reassignments()
        keys = [key for key in partitions_of(admin, topics) if key in moving]
        confirm(f"Cancel {counted(len(keys), 'move')}?", yes)
        admin.replicas.reassign(dict.fromkeys(keys))
    click.echo(f"Cancelled {counted(len(keys), 'move')}.", err=True)


@command.command("elect", short_help="Elect the preferred leaders of partitions.")
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC[:PARTITION,...]...", shell_complete=complete_topics)
@click.option("--unclean", is_flag=True, help="Elect a live replica that may lack records: records may be lost.")
@yes_option
@cluster_options
def elect(topics: tuple[str, ...], unclean: bool, yes: bool, connection: Connection) -> None:
    """Elect the preferred leaders of partitions: the first of their replicas."""
    if yes and not unclean:
        click.echo("--yes does nothing without --unclean: no question is asked", err=True)
    with connection.admin() as admin:
        keys = partitions_of(admin, topics)
        if unclean:
            confirm(
                f"Elect leaders of {counted(len(keys), 'partition')} that may lack records? These records are lost.",
                yes,
            )
        admin.replicas.elect_leaders(
            keys, admin_api.ElectionType.UNCLEAN if unclean else admin_api.ElectionType.PREFERRED
        )
    click.echo(f"Elected the leaders of {counted(len(keys), 'partition')}.", err=True)
