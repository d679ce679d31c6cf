"""Settings with units on the command line, with a note of what they became."""

from __future__ import annotations

from collections.abc import Mapping

import click

from pylogbroker.config.units import without_unit


def without_units(settings: Mapping[str, str]) -> dict[str, str]:
    """Return settings whose times and sizes are plain numbers; note on standard error what units became."""
    plain = {name: without_unit(name, text) for name, text in settings.items()}
    for name, text in plain.items():
        if text != settings[name]:
            click.echo(f"{name}={text} ({settings[name].strip()})", err=True)
    return plain
