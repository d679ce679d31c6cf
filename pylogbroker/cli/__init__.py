"""The `pylogbroker` command.

Each subcommand is a module of its name, imported on use, with dependencies other than click.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Final

import click

from pylogbroker import __version__
from pylogbroker.cli.output import escaped_lines
from pylogbroker.errors import PylogbrokerError
from pylogbroker.extras import required_by
from pylogbroker.features import on_first_use

if TYPE_CHECKING:
    from pylogbroker.cli import other_tools
    from pylogbroker.config import parsing
else:
    other_tools = on_first_use("pylogbroker.cli.other_tools")
    parsing = on_first_use("pylogbroker.config.parsing")

_COMMANDS: Final = {
    "acl": "Show, create and delete access control lists.",
    "backup": "Copy a broker's files, also while it runs.",
    "broker": "Start a broker, and describe those of a cluster.",
    "certificates": "Make certificates for trying TLS out.",
    "cluster": "Show brokers, disks and health.",
    "completion": "Print the completion of a shell.",
    "config": "Show and change settings of topics, brokers and groups.",
    "consume": "Print records of topics.",
    "coordination": "Rebuild a lost coordination.sqlite.",
    "demo": "Run a broker with live sample data and its web UI, until Ctrl-C.",
    "dump": "Print segments, indexes, snapshots and checkpoints.",
    "group": "List groups, show their lag, reset and delete offsets.",
    "load": "Load new records of topics into Parquet files with Spark.",
    "loaded": "Show what has been loaded into a directory.",
    "migrate": "Import Kafka 0.7 data, and topics and offsets from ZooKeeper.",
    "mirror": "Copy topics from one cluster to another.",
    "produce": "Write records: lines of the standard input.",
    "profile": "Name clusters with their settings: create, use, list, show, delete.",
    "quota": "Show and set quotas of users, client ids and addresses.",
    "reassign": "Move partitions to other brokers, and elect leaders.",
    "schema": "List, show, register, check and delete schemas of a registry.",
    "share": "Show share groups, set where they start, show and redrive their dead letters.",
    "sql": "Query topics with SQL, by DuckDB.",
    "storage": "Format log directories for a cluster of KRaft controllers.",
    "token": "Create, list, renew and expire delegation tokens.",
    "topic": "List, create, describe, alter, delete and trim topics.",
    "top": "Show topics, groups and brokers live: rates, lag, problems.",
    "txn": "Show transactions and their producers, and end those that hang.",
    "user": "Add, list and delete users of SASL listeners.",
    "verify": "Verify all files of a stopped broker.",
}
INTERRUPTED: Final = 130  # as after SIGINT in a shell
_NEW_OBJECTS_MAX: Final = 100_000  # between collections: those during imports find nothing, and cost 50 ms


class _Commands(click.Group):
    """Import subcommands on use; report errors in one line."""

    def parse_args(self, context: click.Context, arguments: list[str]) -> list[str]:
        try:
            return super().parse_args(context, arguments)
        except click.NoSuchOption as error:
            raise _with_remedy(error) from error

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = arguments[0]
        if name not in _COMMANDS and not name.startswith("-") and not context.resilient_parsing:
            raise click.UsageError(f"there is no command {name!r}{_hint(context, name, _COMMANDS)}", context)
        return super().resolve_command(context, arguments)

    def list_commands(self, context: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        command: click.Command = import_module(f"pylogbroker.cli.{name}").command
        return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(_COMMANDS.items()))

    def invoke(self, context: click.Context) -> object:
        thresholds = gc.get_threshold()
        gc.set_threshold(_NEW_OBJECTS_MAX, *thresholds[1:])
        try:
            return self._invoke(context)
        finally:
            gc.set_threshold(*thresholds)

    def _invoke(self, context: click.Context) -> object:
        try:
            with required_by("the command"):
                return super().invoke(context)
        except click.NoSuchOption as error:
            raise _with_remedy(error) from error
        except click.exceptions.NoSuchCommand as error:
            group = error.ctx.command if error.ctx is not None else None
            names = group.list_commands(error.ctx) if isinstance(group, click.Group) and error.ctx else ()
            text = f"there is no command {error.command_name!r}{_hint(error.ctx, error.command_name, names)}"
            raise click.UsageError(text, error.ctx) from error
        except BrokenPipeError:
            raise  # click ends in silence: the reader of a pipe has enough
        except (PylogbrokerError, OSError) as error:
            raise click.ClickException(escaped_lines(str(error))) from error
        except KeyboardInterrupt:
            click.echo("Interrupted.", err=True)
            context.exit(INTERRUPTED)


def _hint(context: click.Context | None, name: str, names: Iterable[str]) -> str:
    """Return what may be meant by a command that does not exist."""
    if context is not None and (words := other_tools.equivalent(_path(context), name)):
        return f"; see `pylogbroker {words}`"
    near = parsing.closest(name, names)
    return f"; did you mean {near}?" if near else ""


def _path(context: click.Context) -> str:
    """Return the words of a command after `pylogbroker`."""
    return context.command_path.partition(" ")[2]


def _with_remedy(error: click.NoSuchOption) -> click.UsageError:
    """Say how to give a command an argument, such as an id, that begins with '-'."""
    if error.ctx is not None and (words := other_tools.equivalent(_path(error.ctx), error.option_name)):
        return click.UsageError(f"there is no option {error.option_name!r}; see `pylogbroker {words}`", error.ctx)
    if error.ctx is None or not any(isinstance(parameter, click.Argument) for parameter in error.ctx.command.params):
        return error
    remedy = f"An argument that begins with '-' comes after --: {error.ctx.command_path} -- {error.option_name}"
    return click.UsageError(f"{error.format_message()} {remedy}...", error.ctx)


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="pylogbroker")
def main() -> None:
    """Kafka's log in Python: verbs for running clusters, and for files.

    \b
    A cluster to look at, with data:  pylogbroker demo
    A broker at 127.0.0.1:9092:       pylogbroker broker start
    Records to it, and from it:       pylogbroker produce TOPIC --create
                                      pylogbroker consume TOPIC
    """
