"""`pylogbroker coordination`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pylogbroker.cli.broker_options import broker_options
from pylogbroker.features import on_first_use

if TYPE_CHECKING:
    from pylogbroker.config import BrokerConfig
    from pylogbroker.offline import rebuild as offline_rebuild
else:
    offline_rebuild = on_first_use("pylogbroker.offline.rebuild")


@click.group("coordination", short_help="Rebuild a lost coordination.sqlite.")
def command() -> None:
    """Maintain coordination.sqlite, which lists a broker's topics."""


@command.command("rebuild", short_help="Rebuild it from the log directories.")
@broker_options
def rebuild(config: BrokerConfig) -> None:
    """Rebuild a lost coordination.sqlite from the log directories.

    The broker must not run. The logs do not have the topics' settings, so nothing is deleted by age or size until you
    set them again. They do not have ACLs, users with SCRAM credentials, client quotas, delegation tokens and changed
    broker settings either: create these again. The command lists at its end what it could not recover.
    """
    offline_rebuild.rebuild(config, click.echo)
