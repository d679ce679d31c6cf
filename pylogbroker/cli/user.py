"""`pylogbroker user`."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from pylogbroker.cli.acl import acl_rows
from pylogbroker.cli.broker_options import broker_settings
from pylogbroker.cli.cluster_names import complete_users
from pylogbroker.cli.cluster_options import Connection, cluster_options
from pylogbroker.cli.output import confirm, format_option, show, yes_option
from pylogbroker.errors import ConfigError, ErrorCode, KafkaError
from pylogbroker.features import on_first_use

if TYPE_CHECKING:
    from pylogbroker.client import admin as admin_api
    from pylogbroker.offline import users as offline_users
    from pylogbroker.offline.users import UserList
    from pylogbroker.security.sasl import users as sasl_users
else:
    admin_api = on_first_use("pylogbroker.client.admin")
    offline_users = on_first_use("pylogbroker.offline.users")
    sasl_users = on_first_use("pylogbroker.security.sasl.users")

_MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_SALT_BYTES: Final = 24


@click.group("user", short_help="Add, list and delete users of SASL listeners.")
def command() -> None:
    """Add, list and delete users of SASL listeners.

    They are in a running cluster, named by --bootstrap-server, a profile or the like. With --file, or --config with the
    setting `users`, they are in a file, which a running broker reads again when it changes. With --config or --data-dir
    alone, they are in the files of a broker that must not run.
    """


def _user_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Pass users: a file, the files of a broker, or the connection to a cluster."""

    @cluster_options
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
        connection: Connection,
        **others: Any,
    ) -> Any:
        users = _users(users_file, file, data_dir, overrides, connection)
        return function(*arguments, users=users, **others)

    return with_users


def _users(
    path: Path | None,
    file: str | None,
    data_dir: str | None,
    overrides: tuple[str, ...],
    connection: Connection,
) -> UserList | Connection:
    if path is not None:
        return offline_users.UsersFile(path)
    if file is None and data_dir is None:
        return connection
    config = broker_settings(file, data_dir, overrides)
    named = config.users
    if named:
        return offline_users.UsersFile(Path(named))
    if config.in_cluster:
        raise ConfigError("users: the broker is in a cluster; name a file, or a running broker by --bootstrap-server")
    return offline_users.TreeUsers(config)


@command.command("add", short_help="Add a user, or set the password of one.")
@click.argument("name", shell_complete=complete_users)
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
def add(name: str, mechanisms: tuple[str, ...], iterations: int, users: UserList | Connection) -> None:
    """Add a user, or set the password of one.

    The password is asked for, or read from the first line of the standard input. It is not kept, but the keys that
    SCRAM derives from it.
    """
    password = _password(name)
    if isinstance(users, Connection):
        with users.admin() as admin:
            admin.users.set_password(name, password, mechanisms, iterations)
        click.echo(f"User {name} can connect by {', '.join(dict.fromkeys(mechanisms))}.")
        return
    keys = [
        sasl_users.ScramKeys.derive(mechanism, password, os.urandom(_SALT_BYTES), iterations)
        for mechanism in dict.fromkeys(mechanisms)
    ]
    users.add(name, keys)
    click.echo(f"User {name} can connect by {', '.join(key.mechanism for key in keys)} or PLAIN.")


@command.command("list", short_help="List users and what they can connect by.")
@_user_options
@format_option
def list_users(users: UserList | Connection, output: str) -> None:
    """List users and what they can connect by."""
    if isinstance(users, Connection):
        with users.admin() as admin:
            users.check_may_describe(admin)
            by_name = {name: sorted(mechanisms) for name, mechanisms in admin.users.describe().items()}
    else:
        by_name = {name: list(mechanisms) for name, mechanisms in users.names().items()}
    show([{"user": name, "mechanisms": by_name[name]} for name in sorted(by_name)], output)


@command.command("describe", short_help="Show mechanisms, quotas and ACLs of a user.")
@click.argument("name", shell_complete=complete_users)
@cluster_options
@format_option
def describe(name: str, connection: Connection, output: str) -> None:
    """Show what a user of a running cluster can connect by, and the user's quotas and ACLs.

    Users may have quotas and ACLs without a password: they connect by certificates, or by users of a file.
    """
    with connection.admin() as admin:
        connection.check_may_describe(admin)
        mechanisms = admin.users.describe().get(name, {})
        quotas = admin.quotas.describe({"user": name})
        try:
            acls = acl_rows(admin.acls.describe(admin_api.AclFilter(principal=f"User:{name}")))
        except KafkaError as error:
            if error.code is not ErrorCode.SECURITY_DISABLED:
                raise
            acls = []  # everyone may do everything
    if not mechanisms and not quotas and not acls:
        raise ConfigError(f"there is no user {name} with a password, quotas or ACLs")
    limits = [
        {"client_id": dict(entity).get("client-id"), "quotas": dict(sorted(values.items()))}
        for entity, values in sorted(quotas.items(), key=str)
    ]
    user = {"user": name, "mechanisms": mechanisms, "quotas": limits, "acls": acls}
    rules = [f"{acl['permission']} {acl['operation']} {acl['resource']} {acl['name']}" for acl in acls]
    show(user, output, {**user, "acls": rules})  # type: ignore[arg-type]


@command.command("delete", short_help="Delete a user.")
@click.argument("name", shell_complete=complete_users)
@yes_option
@_user_options
def delete(name: str, yes: bool, users: UserList | Connection) -> None:
    """Delete a user. Connections that are authenticated stay."""
    question = f"Delete user {name}?"
    if isinstance(users, Connection):
        with users.admin() as admin:
            confirm(question, yes)
            admin.users.delete(name)
        click.echo(f"User {name} is deleted.")
        return
    if name not in users.names():
        raise ConfigError(f"there is no user {name}")
    confirm(question, yes)
    users.delete(name)
    click.echo(f"User {name} is deleted.")


def _password(name: str) -> str:
    if sys.stdin is None:
        raise ConfigError("the standard input is closed: the password is read from it")
    if sys.stdin.isatty():
        password: str = click.prompt(f"Password of {name}", hide_input=True, confirmation_prompt=True)
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise ConfigError("the password is empty; give it as the first line of the standard input")
    return password
