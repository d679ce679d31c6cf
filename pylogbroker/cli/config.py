"""`pylogbroker config`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pylogbroker.cli.arguments import assignments
from pylogbroker.cli.cluster_names import complete_config_names, complete_settings, delete_option, set_option
from pylogbroker.cli.cluster_options import Connection, cluster_options
from pylogbroker.cli.output import format_option, show
from pylogbroker.cli.topic import known_topics
from pylogbroker.cli.units import without_units
from pylogbroker.errors import ConfigError
from pylogbroker.features import on_first_use
from pylogbroker.formatting import counted
from pylogbroker.java.text import is_digits

if TYPE_CHECKING:
    from pylogbroker.client import admin as admin_api
    from pylogbroker.client.admin import ConfigResource
else:
    admin_api = on_first_use("pylogbroker.client.admin")


@click.group("config", short_help="Show and change settings of topics, brokers and groups.")
def command() -> None:
    """Show and change settings of topics, brokers and groups."""


def _resource(kind: str, name: str | None) -> ConfigResource:
    if kind == "topic":
        if not name:
            raise click.UsageError("give the topic's name")
        return admin_api.ConfigResource.topic(name)
    if kind == "group":
        if not name:
            raise click.UsageError("give the group's id")
        return admin_api.ConfigResource.group(name)
    if name is not None and not is_digits(name):
        raise click.UsageError(f"{name!r}: expected a broker's number; without one, the defaults of all brokers")
    return admin_api.ConfigResource.broker(None if name is None else int(name))


def _topics(kind: str, name: str | None) -> list[str]:
    return [name] if kind == "topic" and name else []


@command.command("describe", short_help="Show settings with their sources.")
@click.argument("kind", type=click.Choice(["topic", "broker", "group"]))
@click.argument("name", required=False, shell_complete=complete_config_names)
@click.option(
    "--setting",
    "names",
    multiple=True,
    metavar="NAME",
    shell_complete=complete_settings,
    help="Only this setting; may be repeated.",
)
@click.option("--all", "everything", is_flag=True, help="Settings with default values, too.")
@cluster_options
@format_option
def describe(
    kind: str, name: str | None, names: tuple[str, ...], everything: bool, connection: Connection, output: str
) -> None:
    """Show the settings of a topic, of a group, of the broker with number NAME, or of all brokers.

    The source of a value is topic, group, broker, cluster (all brokers), static (the broker's file) or default.
    """
    resource = _resource(kind, name)
    with connection.admin() as admin, known_topics(admin, _topics(kind, name)):
        entries = admin.configs.describe([resource], names or None)[resource]
    rows = [
        {
            "name": entry.name,
            "value": entry.value,
            "source": entry.source,
            "type": entry.type,
            "read_only": entry.is_read_only,
            "sensitive": entry.is_sensitive,
        }
        for _, entry in sorted(entries.items())
        if everything or names or not entry.is_default
    ]
    missing = [setting for setting in names if setting not in entries]
    if missing:
        raise ConfigError(f"{resource} has no setting {', '.join(missing)}")
    if not rows and output == "table":
        click.echo(f"{resource}: all settings have their default values; --all shows them", err=True)
    else:
        show(rows, output)


@command.command("alter", short_help="Change settings while brokers run.")
@click.argument("kind", type=click.Choice(["topic", "broker", "group"]))
@click.argument("name", required=False, shell_complete=complete_config_names)
@set_option
@delete_option
@click.option(
    "--append",
    multiple=True,
    metavar="NAME=ITEM",
    shell_complete=complete_settings,
    help="Add an item to a setting that is a list.",
)
@click.option(
    "--subtract",
    multiple=True,
    metavar="NAME=ITEM",
    shell_complete=complete_settings,
    help="Remove an item from a setting that is a list.",
)
@click.option("--validate-only", is_flag=True, help="Only check whether the change is possible.")
@cluster_options
def alter(
    kind: str,
    name: str | None,
    changed: tuple[str, ...],
    deleted: tuple[str, ...],
    append: tuple[str, ...],
    subtract: tuple[str, ...],
    validate_only: bool,
    connection: Connection,
) -> None:
    """Change settings of a topic, of a group, of the broker with number NAME, or of all brokers."""
    resource = _resource(kind, name)
    given = (
        (admin_api.ConfigOperation.SET, "--set", changed),
        (admin_api.ConfigOperation.APPEND, "--append", append),
        (admin_api.ConfigOperation.SUBTRACT, "--subtract", subtract),
    )
    changes = [admin_api.SettingChange(setting, admin_api.ConfigOperation.DELETE) for setting in deleted]
    changes += [
        admin_api.SettingChange(setting, operation, value)
        for operation, option, texts in given
        for setting, value in without_units(assignments(texts, option)).items()
    ]
    if not changes:
        raise click.UsageError("give --set, --delete, --append or --subtract")
    with connection.admin() as admin, known_topics(admin, _topics(kind, name)):
        admin.configs.alter({resource: changes}, validate_only=validate_only)
    click.echo(
        f"{'Checked' if validate_only else 'Changed'} {counted(len(changes), 'setting')} of {resource}.", err=True
    )
