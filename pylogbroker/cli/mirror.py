"""`pylogbroker mirror`: copy topics from one cluster to another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pylogbroker.cli.mirror_status import status
from pylogbroker.config.units import size_in_bytes
from pylogbroker.features import on_first_use

if TYPE_CHECKING:
    from pylogbroker.cli import mirror_run
else:
    mirror_run = on_first_use("pylogbroker.cli.mirror_run")


def _bytes(context: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    if text is None:
        return None
    size = size_in_bytes(text)
    if size is None:
        raise click.BadParameter(f"{text!r} is not accepted; expected a size such as 10MB")
    return size


@click.group("mirror", invoke_without_command=True, short_help="Copy topics from one cluster to another.")
@click.option("--from", "source", metavar="CLUSTER", help="Source: HOST:PORT,..., a profile, or an alias of --config.")
@click.option("--to", "target", metavar="CLUSTER", help="Target: HOST:PORT,..., a profile, or an alias of --config.")
@click.option("--topics", metavar="REGEX,...", help="Topics to copy; whole names match.  [default: all]")
@click.option("--config", "file", metavar="FILE", help="Properties file with the names of MirrorMaker 2.")
@click.option("--names", metavar="POLICY", help="Names in the target: same, prefix (SOURCE.), or a plugin.")
@click.option("--from-alias", metavar="NAME", help="Name of the source in topics.  [default: profile, or cluster id]")
@click.option("--to-alias", metavar="NAME", help="Name of the target.  [default: profile, or cluster id]")
@click.option("--max-bytes-per-second", callback=_bytes, metavar="SIZE", help="Limit of the rate, such as 10MB.")
@click.option("--replication-factor", type=click.IntRange(1), metavar="N", help="Of topics that are created.")
@click.option("--at-least-once", is_flag=True, help="Write positions after records: without transactions.")
@click.option("--restart-recreated", is_flag=True, help="Copy recreated topics from their start.")
@click.option("--groups", metavar="REGEX,...", help="Groups whose offsets follow; whole names match.  [default: all]")
@click.option("--acls", is_flag=True, help="Let ACLs of topics follow, too.")
@click.option("--records-only", is_flag=True, help="Let nothing follow but records: no groups, no settings of topics.")
@click.option("--metrics", "metrics_address", metavar="HOST:PORT", help="Serve metrics for Prometheus there.")
@click.option("--until-caught-up", is_flag=True, help="End when the target has all that the source has.")
@click.option("--format", "output", type=click.Choice(["text", "json"]), default="text", help="Form of the progress.")
@click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
@click.pass_context
def command(
    context: click.Context,
    /,
    source: str | None,
    target: str | None,
    topics: str | None,
    file: str | None,
    output: str,
    until_caught_up: bool,
    quiet: bool,
    metrics_address: str | None,
    **options: Any,
) -> None:
    """Copy topics from one cluster to another, each record once, until Ctrl-C.

    Topics, partitions, keys, headers and timestamps stay. Run it again to continue; run it twice for a standby.

    \b
    pylogbroker mirror --from east:9092 --to offline:9092
    pylogbroker mirror --from east --to offline --topics 'orders,clicks.*' --names prefix
    pylogbroker mirror --config mm2.properties
    """
    if context.invoked_subcommand is not None:
        return
    if file is None and (source is None or target is None):
        raise click.UsageError("give --from and --to, or --config")
    mirrors = mirror_run.chosen_mirrors(source, target, topics, file, options)
    exit_status = mirror_run.run(
        mirrors, until_caught_up=until_caught_up, output=output, quiet=quiet, metrics_address=metrics_address
    )
    if exit_status:
        context.exit(exit_status)


command.add_command(status)
