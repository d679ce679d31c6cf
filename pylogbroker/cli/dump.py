"""`pylogbroker dump`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pylogbroker.cli.output import format_option, show
from pylogbroker.features import on_first_use

if TYPE_CHECKING:
    from pylogbroker.offline import dump as offline_dump
else:
    offline_dump = on_first_use("pylogbroker.offline.dump")


@click.command("dump", short_help="Print segments, indexes, snapshots and checkpoints.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(exists=True, dir_okay=False))
@click.option("--records", is_flag=True, help="Records instead of batches.")
@format_option
def command(files: tuple[str, ...], records: bool, output: str) -> None:
    """Print the contents of a broker's files: segments, indexes, producer snapshots and checkpoints.

    Records of KRaft's metadata log in __cluster_metadata-0, and of its snapshots, are decoded.

    The broker may run: its last batches may then be incomplete. Kafka's files have the same forms.
    """
    for path in files:
        if len(files) > 1 and output == "table":
            click.echo(f"{path}:")
        show(list(offline_dump.dump(path, records)), output)
