"""`pylogbroker user`."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from pylogbroker.cli.broker_options import broker_settings
from pylogbroker.errors import ConfigError

if TYPE_CHECKING:
    from pylogbroker.offline.users import UserList

_MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_SALT_BYTES: Final = 24


@click.group("user", short_help="Add, list and delete users of SASL listeners.")
def command() -> None:
    """Add, list and delete users of SASL listeners.

    They are in a file, named by --file or by the setting `users` in --config; else in the files of a broker that must
    not run. A running broker reads its file of users again when it changes; for users of its coordination tree, use
    kafka-configs.
    """


def _user_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Pass the list of users."""

    @click.option("-f", "--file", "users_file", metavar="FILE", type=click.Path(path_type=Path), help="File of users.")
    @click.option("-c", "--config", "file", metavar="FILE", help="The broker's properties file.")
    @click.option("-d", "--data-dir", metavar="DIR", help="The broker's data directory; overrides log.dirs.")
    @click.option("-o", "--override", "overrides", multiple=True, metavar="NAME=VALUE", help="A setting of the broker.")
    @functools.wraps(function)
    def with_users(
        *arguments: Any,
        users_file: Path | None,
        file: str | None,
        data_dir: str | None,
        overrides: tuple[str, ...],
        **others: Any,
    ) -> Any:
        return function(*arguments, users=_users(users_file, file, data_dir, overrides), **others)

    return with_users


def _users(path: Path | None, file: str | None, data_dir: str | None, overrides: tuple[str, ...]) -> UserList:
    from pylogbroker.offline.users import TreeUsers, UsersFile

    if path is not None:
        return UsersFile(path)
    if file is None and data_dir is None:
        raise click.UsageError("give --file to name a file of users, or --config or --data-dir to name the broker's")
    config = broker_settings(file, data_dir, overrides)
    named = config.optional_text("users")
    if named:
        return UsersFile(Path(named))
    if config.in_cluster:
        raise ConfigError("users: the broker is in a cluster; name a file, or use kafka-configs with a running broker")
    return TreeUsers(config)


@command.command("add", short_help="Add a user, or set the password of one.")
@click.argument("name")
@click.option(
    "--mechanism",
    "mechanisms",
    multiple=True,
    default=_MECHANISMS,
    show_default=True,
    type=click.Choice(_MECHANISMS),
    help="Mechanism that the user may choose, besides PLAIN; may be repeated.",
)
@click.option("--iterations", default=4096, show_default=True, type=click.IntRange(4096, 16384))
@_user_options
def add(name: str, mechanisms: tuple[str, ...], iterations: int, users: UserList) -> None:
    """Add a user, or set the password of one.

    The password is asked for, or read from the first line of the standard input. It is not kept, but the keys that
    SCRAM derives from it.
    """
    from pylogbroker.security.sasl.users import ScramKeys

    password = _password(name)
    keys = [ScramKeys.derive(each, password, os.urandom(_SALT_BYTES), iterations) for each in dict.fromkeys(mechanisms)]
    users.add(name, keys)
    click.echo(f"User {name} can connect by {', '.join(each.mechanism for each in keys)} or PLAIN.")


@command.command("list", short_help="List users and what they can connect by.")
@_user_options
def list_users(users: UserList) -> None:
    """List users and what they can connect by."""
    for name, mechanisms in sorted(users.names().items()):
        click.echo(f"{name}: {', '.join(mechanisms)}")


@command.command("delete", short_help="Delete a user.")
@click.argument("name")
@_user_options
def delete(name: str, users: UserList) -> None:
    """Delete a user. Connections that are authenticated stay."""
    if name not in users.names():
        raise ConfigError(f"there is no user {name}")
    users.delete(name)
    click.echo(f"User {name} is deleted.")


def _password(name: str) -> str:
    if sys.stdin.isatty():
        found: str = click.prompt(f"Password of {name}", hide_input=True, confirmation_prompt=True)
    else:
        found = sys.stdin.readline().rstrip("\r\n")
    if not found:
        raise ConfigError("the password is empty; give it as the first line of the standard input")
    return found
