"""`pylogbroker storage`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pylogbroker.cli.broker_options import broker_options
from pylogbroker.features import on_first_use

if TYPE_CHECKING:
    from pylogbroker.config import BrokerConfig
    from pylogbroker.offline import kraft_format
else:
    kraft_format = on_first_use("pylogbroker.offline.kraft_format")


@click.group("storage", short_help="Format log directories for a cluster of KRaft controllers.")
def command() -> None:
    """Format log directories for a cluster of Apache Kafka's KRaft controllers."""


@command.command("format", short_help="Write the ids of broker, cluster and directory.")
@click.option("-t", "--cluster-id", required=True, metavar="ID", help="The id of the controllers' cluster.")
@click.option("-g", "--ignore-formatted", is_flag=True, help="Leave directories that are formatted alike.")
@broker_options
def format_(config: BrokerConfig, cluster_id: str, ignore_formatted: bool) -> None:
    """Write meta.properties to the log directories of a new member of a cluster.

    The settings name the broker: process.roles=broker, node.id, and log.dirs. A directory that holds anything is an
    error, and nothing is written.
    """
    for directory in list(kraft_format.format_directories(config, cluster_id, ignore_formatted)):
        verb = "is formatted already" if directory.was_formatted else "is formatted"
        click.echo(f"{directory.path} {verb}: broker {config.broker_id} of cluster {cluster_id}")


@command.command("random-uuid", short_help="Print a new id for a cluster.")
def random_uuid() -> None:
    """Print a new id for a cluster, which Apache Kafka's controllers are formatted with."""
    click.echo(kraft_format.random_id())
