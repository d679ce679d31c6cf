"""`pylogbroker broker`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from pylogbroker.features import on_first_use

if TYPE_CHECKING:
    from twisted.scripts import twistd
else:
    twistd = on_first_use("twisted.scripts.twistd")


@click.group("broker", short_help="Start a broker.")
def command() -> None:
    """Start a broker."""


@command.command(
    "start",
    short_help="Run a broker in the foreground, until Ctrl-C.",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True},
)
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def start(options: tuple[str, ...]) -> None:
    """Run a broker, or several with --brokers, in the foreground. OPTIONS are those of `twistd pylogbroker`."""
    streams = sys.stdout, sys.stderr
    sys.argv = ["twistd", "--nodaemon", "--pidfile=", "pylogbroker", *options]
    try:
        twistd.run()  # type: ignore[no-untyped-call]
    finally:
        sys.stdout, sys.stderr = streams  # twistd has made them its log; an error must not become a line of it
