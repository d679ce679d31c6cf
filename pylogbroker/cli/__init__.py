"""The `pylogbroker` command.

    pylogbroker backup ...         a copy of a broker's files, also of one that runs
    pylogbroker coordination ...   a lost coordination.sqlite, made again
    pylogbroker load ...           topics into Parquet files, by Spark
    pylogbroker loaded ...         what has been loaded into a directory
    pylogbroker migrate ...        data of Kafka 0.7, topics and offsets from ZooKeeper, into a stopped broker

Each of them is a module of its name, imported when it is called, or asked for its help; what it needs beyond click it
imports when it runs.
"""

from __future__ import annotations

import shlex
import sys
from importlib import import_module
from typing import Final

import click

from pylogbroker import __version__
from pylogbroker.errors import PylogbrokerError

_COMMANDS: Final = {
    "backup": "Copy a broker's files, also while it runs.",
    "coordination": "Make a lost coordination.sqlite again.",
    "load": "Load topics into Parquet files, by Spark: what is new since the last time.",
    "loaded": "Show what has been loaded into a directory.",
    "migrate": "Import data of Kafka 0.7, and topics and offsets from ZooKeeper.",
}
_INTERRUPTED: Final = 130  # as a shell has it for a program that SIGINT ended


class _Commands(click.Group):
    """Finds a command in the module of its name, and says what is wrong in one line."""

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
        try:
            return super().invoke(context)
        except (PylogbrokerError, OSError) as error:
            raise click.ClickException(str(error)) from error
        except KeyboardInterrupt:
            click.echo("Interrupted: what is finished is kept, and the same command, run again, goes on.", err=True)
            context.exit(_INTERRUPTED)
        except ImportError as error:
            package = (error.name or "").partition(".")[0]
            if package not in ("pyspark", "pyarrow", "tenacity"):
                raise
            raise click.ClickException(
                f"{package} is missing; install what Spark needs: {_install('spark')}"
            ) from error


def _install(extra: str) -> str:
    """Return the command that installs the requirements of an extra where this program runs.

    It names the requirements and not the package, so that it works however the package came there.
    """
    from importlib.metadata import requires  # slow to import, and needed for this error alone

    parts = (requirement.partition(";") for requirement in requires("pylogbroker") or ())
    wanted = [name.strip() for name, _, marker in parts if f'extra == "{extra}"' in marker.replace("'", '"')]
    return shlex.join([sys.executable, "-m", "pip", "install", *wanted])


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="pylogbroker")
def main() -> None:
    """Kafka's log in Python.  A broker is started by `twistd pylogbroker`."""
