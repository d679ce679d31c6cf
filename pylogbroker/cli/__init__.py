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

_SECTIONS: Final = {
    "A broker": {
        "demo": "Run a broker with live sample data and its web UI, until Ctrl-C.",
        "broker": "Start a broker, and describe those of a cluster.",
        "certificates": "Make certificates to try TLS with.",
        "storage": "Format log directories for a cluster of KRaft controllers.",
    },
    "Records": {
        "produce": "Write records: lines of the standard input.",
        "consume": "Print records of topics.",
        "sql": "Query topics with SQL, by DuckDB.",
        "load": "Load new records of topics into Parquet files with Spark.",
        "loaded": "Show what has been loaded into a directory.",
        "mirror": "Copy topics from one cluster to another.",
    },
    "A running cluster": {
        "top": "Show topics, groups and brokers live: rates, lag, problems.",
        "cluster": "Show brokers, controllers, features, disks and health.",
        "topic": "List, create, describe, alter, delete and trim topics.",
        "group": "List groups, show their lag, reset and delete offsets.",
        "share": "Show share groups, set where they start, show and redrive their dead letters.",
        "txn": "Show transactions and their producers, and end those that hang.",
        "schema": "List, show, register, check and delete schemas of a registry.",
        "config": "Show and change settings of topics, brokers and groups.",
        "quota": "Show and set quotas of users, client ids and addresses.",
        "reassign": "Move partitions to other brokers, and elect leaders.",
        "acl": "Show, create and delete access control lists.",
        "user": "Add, list and delete users of SASL listeners.",
        "token": "Create, list, renew and expire delegation tokens.",
    },
    "Files of a broker": {
        "verify": "Verify all files of a stopped broker.",
        "dump": "Print segments, indexes, snapshots and checkpoints.",
        "backup": "Copy a broker's files, also while it runs.",
        "migrate": "Import Kafka 0.7 data, and topics and offsets from ZooKeeper.",
        "coordination": "Rebuild a lost coordination.sqlite.",
    },
    "This command": {
        "profile": "Name clusters with their settings: create, use, list, show, delete.",
        "completion": "Print the completion of a shell.",
    },
}
_COMMANDS: Final = tuple(sorted(name for commands in _SECTIONS.values() for name in commands))
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
        return list(_COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        command: click.Command = import_module(f"pylogbroker.cli.{name}").command
        return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, _COMMANDS))  # in each section, so that all texts stand below each other
        for title, commands in _SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), text) for name, text in commands.items()])

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
    """Run a broker for Kafka clients, use any cluster of Kafka's protocol, and inspect a broker's files.

    \b
    A cluster to look at, with data:  pylogbroker demo
    A broker at 127.0.0.1:9092:       pylogbroker broker start
    Records to it, and from it:       pylogbroker produce TOPIC --create
                                      pylogbroker consume TOPIC
    """
