"""`pylogbroker verify`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from pylogbroker.cli.broker_options import broker_options
from pylogbroker.cli.output import format_option, show
from pylogbroker.cli.progress import progress_bar
from pylogbroker.features import on_first_use
from pylogbroker.formatting import counted

if TYPE_CHECKING:
    from pylogbroker.config import BrokerConfig
    from pylogbroker.offline import verification
else:
    verification = on_first_use("pylogbroker.offline.verification")

_DAMAGED: Final = 10  # exit code, as of `cluster health`


@click.command("verify", short_help="Verify all files of a stopped broker.")
@broker_options
@format_option
@click.pass_context
def command(context: click.Context, config: BrokerConfig, output: str) -> None:
    """Verify the CRC of each batch, the indexes and the checkpoints of a stopped broker. Writes nothing.

    Exits with 10 if anything is damaged. Damaged indexes are made again by the broker's next start.
    """
    with progress_bar("Verifying", lambda: verification.bytes_to_verify(config)) as advance:

        def report(path: str, size: int) -> None:
            if advance is None:
                click.echo(f"{path}: {size} bytes", err=True)
            else:
                advance(size)

        audit = verification.verify(config, report)
    problems = [
        {"path": problem.path, "position": problem.position, "problem": problem.text} for problem in audit.problems
    ]
    show(problems, output)
    for path in audit.left_out:
        click.echo(f"{path}: not verified: it has the format of Kafka 0.7", err=True)
    click.echo(
        f"{counted(audit.partitions, 'partition')}, {counted(audit.segments, 'segment')},"
        f" {counted(audit.batches, 'batch', 'batches')}, {counted(audit.bytes, 'byte')}:"
        f" {counted(len(problems), 'problem')}",
        err=True,
    )
    if problems:
        context.exit(_DAMAGED)
