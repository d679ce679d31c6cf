"""`pylogbroker quota`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from pylogbroker.cli.arguments import assignments
from pylogbroker.cli.cluster_names import complete_users
from pylogbroker.cli.cluster_options import Connection, cluster_options
from pylogbroker.cli.output import confirm, format_option, show, yes_option
from pylogbroker.cli.units import without_units
from pylogbroker.formatting import counted


@click.group("quota", short_help="Show and set quotas of users, client ids and addresses.")
def command() -> None:
    """Show and set quotas of users, client ids and addresses."""


def _entity_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Pass the parts of an entity as `parts`: None for a default."""

    @click.option("--user", shell_complete=complete_users, help="Quotas of this user.")
    @click.option("--user-default", is_flag=True, help="Quotas of users without their own.")
    @click.option("--client-id", help="Quotas of this client id.")
    @click.option("--client-id-default", is_flag=True, help="Quotas of client ids without their own.")
    @click.option("--ip", help="Quotas of this address.")
    @click.option("--ip-default", is_flag=True, help="Quotas of addresses without their own.")
    @functools.wraps(function)
    def with_parts(*arguments: Any, **options: Any) -> Any:
        parts: dict[str, str | None] = {}
        for kind in ("user", "client-id", "ip"):
            option = kind.replace("-", "_")
            name, is_default = options.pop(option), options.pop(f"{option}_default")
            if name is not None and is_default:
                raise click.UsageError(f"give --{kind} or --{kind}-default")
            if name is not None or is_default:
                parts[kind] = name
        return function(*arguments, parts=parts, **options)

    return with_parts


@command.command("describe", short_help="Show quotas.")
@_entity_options
@click.option("--strict", is_flag=True, help="Only entities without further parts.")
@cluster_options
@format_option
def describe(parts: dict[str, str | None], strict: bool, connection: Connection, output: str) -> None:
    """Show the quotas of entities that options select; by default all. A default entity is shown as (default)."""
    with connection.admin() as admin:
        by_entity = admin.quotas.describe(parts, strict=strict)
    rows = [
        {
            **{kind.replace("-", "_"): _name(dict(entity), kind) for kind in ("user", "client-id", "ip")},
            "quotas": dict(sorted(quotas.items())),
        }
        for entity, quotas in sorted(by_entity.items(), key=str)
    ]
    show(rows, output)


def _name(entity: dict[str, str | None], kind: str) -> str | None:
    return (entity[kind] or "(default)") if kind in entity else None


@command.command("alter", short_help="Set and remove quotas of an entity.")
@_entity_options
@click.option("-s", "--set", "changed", multiple=True, metavar="NAME=VALUE", help="Such as producer_byte_rate=10MB.")
@click.option("-d", "--delete", "deleted", multiple=True, metavar="NAME", help="Remove a quota.")
@yes_option
@cluster_options
def alter(
    parts: dict[str, str | None],
    changed: tuple[str, ...],
    deleted: tuple[str, ...],
    yes: bool,
    connection: Connection,
) -> None:
    """Set and remove quotas of a user, a client id, both, or an address.

    The quotas are producer_byte_rate, consumer_byte_rate, request_percentage and controller_mutation_rate, and
    connection_creation_rate of addresses.
    """
    if not parts:
        raise click.UsageError("give --user, --client-id or --ip, or one of their defaults")
    if not changed and not deleted:
        raise click.UsageError("give --set NAME=VALUE, or --delete NAME")
    quotas: dict[str, float | None] = dict.fromkeys(deleted)
    for name, text in without_units(assignments(changed, "--set")).items():
        try:
            quotas[name] = float(text)
        except ValueError:
            raise click.BadParameter(f"{name}={text}: expected a number", param_hint="--set") from None
    if deleted:
        confirm(f"Remove {', '.join(deleted)}?", yes)
    with connection.admin() as admin:
        admin.quotas.alter({tuple(sorted(parts.items())): quotas})
    click.echo(f"Changed {counted(len(quotas), 'quota')}.", err=True)
