"""`pylogbroker coordination`: the file that says which topics a broker has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pylogbroker.cli.brokers import broker_options

if TYPE_CHECKING:
    from pylogbroker.config import BrokerConfig


@click.group("coordination", short_help="Make a lost coordination.sqlite again.")
def command() -> None:
    """Look after coordination.sqlite, which says which topics a broker has."""


@command.command("rebuild", short_help="Make it again from the log directories.")
@broker_options
def rebuild(config: BrokerConfig) -> None:
    """Make coordination.sqlite again from the log directories, where it is lost.

    The broker must not run.  What cannot be recovered is listed at the end: above all the settings of topics.  Until
    they are set again, nothing is deleted by age or size.
    """
    from pylogbroker.offline.rebuild import rebuild

    rebuild(config, click.echo)
