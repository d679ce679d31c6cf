"""`pylogbroker backup`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pylogbroker.cli.broker_options import broker_options
from pylogbroker.cli.progress import progress_bar
from pylogbroker.features import on_first_use

if TYPE_CHECKING:
    from pylogbroker.config import BrokerConfig
    from pylogbroker.offline import backup
else:
    backup = on_first_use("pylogbroker.offline.backup")


@click.group("backup", short_help="Copy a broker's files, also while it runs.")
def command() -> None:
    """Copy a broker's files, also while it runs."""


@command.command("create", short_help="Copy a broker's files.")
@click.argument("target", metavar="DIRECTORY")
@broker_options
def create(target: str, config: BrokerConfig) -> None:
    """Copy all of a broker's data to a DIRECTORY that does not exist yet.

    The broker may run. The copy of a single log directory can replace it; the copies of several are subdirectories.
    """
    with progress_bar("Copying", lambda: backup.bytes_to_copy(config)) as advance:
        backup.back_up(config, target, click.echo, advance or (lambda _: None))
