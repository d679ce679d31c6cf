"""`pylogbroker completion`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from pylogbroker.cli import main

_PROGRAM = "pylogbroker"


@click.command("completion", short_help="Print the completion of a shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion of a shell: commands, options, and names of topics and groups.

    \b
    In ~/.bashrc:                    eval "$(pylogbroker completion bash)"
    In ~/.zshrc:                     eval "$(pylogbroker completion zsh)"
    In ~/.config/fish/config.fish:   pylogbroker completion fish | source
    """
    completion = get_completion_class(shell)
    assert completion is not None
    click.echo(completion(main, {}, _PROGRAM, f"_{_PROGRAM.upper()}_COMPLETE").source())
